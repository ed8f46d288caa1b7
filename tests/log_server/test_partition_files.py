"""Partition files that somebody made: what is whole is counted, what is wrong is named."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tickproof.conformance.errors import RequestError
from tickproof.conformance.log_server import partition_files
from tickproof.conformance.log_server.partition_files import FileShrunk, GrowingFile, found

Write = Callable[..., Path]


def framed(count: int, size: int = 8) -> bytes:
    return b"".join(struct.pack("<I", size) + bytes([n % 256]) * size for n in range(count))


@pytest.fixture(params=[1, 50, 8 << 20])
def write(tmp_path, monkeypatch, request) -> Write:
    """Write files into a folder; they are read in steps of one record, of a few, at once."""
    monkeypatch.setattr(partition_files, "STEP", request.param)

    def write(**files: bytes) -> Path:
        for name, content in files.items():
            (tmp_path / f"{name}.log").write_bytes(content)
        return tmp_path

    return write


def opened(folder: Path) -> list[GrowingFile]:
    files = found(folder)
    for file in files:
        file.close()
    return files


def refused(folder: Path) -> str:
    with pytest.raises(RequestError) as error:
        found(folder)
    return str(error.value).removeprefix(f"{folder}")


def test_files_come_by_stream_and_partition(write):
    folder = write(s1p0=framed(3, 5), s0p1=b"", s0p0=framed(100), s0p10=b"", notes=b"no log")
    for number in range(2, 10):
        write(**{f"s0p{number}": framed(number)})
    (folder / "output").mkdir()
    files = opened(folder)
    assert [(f.stream, f.partition, f.record_size, f.records) for f in files] == [
        (0, 0, 8, 100),
        (0, 1, 8, 0),
        *((0, n, 8, n) for n in range(2, 10)),
        (0, 10, 8, 0),
        (1, 0, 5, 3),
    ]
    assert partition_files.partition_counts(files) == {0: 11, 1: 1}


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_record_is_named_where_it_shows(write, cut):
    folder = write(s0p0=framed(7), s0p1=framed(5)[:-cut] + framed(9))
    at = 5 if cut <= 8 else 4  # its payload was cut, or its size already
    expected = f"/s0p1.log: offset {at} (byte {at * 12}): expected a record of 8 bytes, got one of "
    assert refused(folder).startswith(expected)


def test_a_record_of_another_size_is_named(write):
    folder = write(s0p0=framed(7), s0p1=framed(2) + framed(1, 9) + framed(2))
    assert refused(folder) == (
        "/s0p1.log: offset 2 (byte 24): expected a record of 8 bytes, got one of 9; "
        "or the one before it was cut"
    )


def test_partitions_of_a_stream_have_records_of_one_size(write):
    folder = write(s0p0=framed(7), s0p1=framed(1, 3))
    assert "/s0p1.log: offset 0 (byte 0): expected a record of 8 bytes, got" in refused(folder)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, ": expected partition files, as s0p0.log; there is none"),
        ({"s0p1": framed(1)}, ": s0p1.log is there, and s0p0.log is not"),
        ({"s0p0": framed(1), "s0p3": framed(1)}, ": s0p3.log is there, and s0p1.log is not"),
        ({"s0p0": framed(1), "s1p1": framed(1)}, ": s1p1.log is there, and s1p0.log is not"),
        ({"s0p0": b"", "s0p1": b"\1\0"}, ": expected at least one record in s0p*.log"),
        ({"s0p0": b"hello, world"}, "/s0p0.log: offset 0: expected the size of a record"),
        ({"s0p0": framed(3, 0)}, "/s0p0.log: offset 0: expected the size of a record"),
        ({"s70000p0": framed(1)}, "/s70000p0.log: expected a file, both of its numbers below"),
    ],
)
def test_what_cannot_be_served_is_refused(write, files, why):
    assert refused(write(**files)).startswith(why)


def test_no_folder_and_no_file_are_refused(write):
    folder = write()
    assert refused(folder / "gone") == ": No such file or directory"
    (folder / "s0p0.log").mkdir()
    assert "/s0p0.log: expected a file" in refused(folder)


def test_a_file_grows_by_whole_records(write):
    path = write(s0p0=framed(4)) / "s0p0.log"
    (file,) = found(path.parent)
    for end in range(4 * 12, 9 * 12 + 1):
        path.write_bytes(framed(9)[:end])
        while file.grow():
            pass
        assert (file.records, file.rest) == divmod(end, 12)
    file.close()


def test_what_is_wrong_later_leaves_what_was_counted(write):
    path = write(s0p0=framed(4)) / "s0p0.log"
    (file,) = found(path.parent)
    path.write_bytes(framed(6) + b"\7\0\0\0")
    for _ in range(3):
        with pytest.raises(RequestError, match=r"offset 6 \(byte 72\)"):
            while file.grow():
                pass
        assert file.records == 6
    path.write_bytes(framed(8))
    while file.grow():
        pass
    assert file.records == 8
    os.truncate(path, 95)
    with pytest.raises(FileShrunk, match="had 8 records, and is shorter now"):
        file.grow()
    file.close()
