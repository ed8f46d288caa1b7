"""The sink of files: only what is committed counts, and a half-written line never does."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.file_sink import FilesSink
from tickproof.conformance.jobs.sinks import BadOutput


def sink(state: Path, files: str = "out", **keys: Any) -> FilesSink:
    return FilesSink(OutputTable(files=files, identity=["id"], **keys), state, "priced")


def ids(made: FilesSink, ended: bool = False) -> list[Any]:
    return [value["id"] for _, value in made.rows(ended)]


def write(path: Path, *rows: int, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps({"id": one}) for one in rows) + end)


def log(folder: Path, name: str, *names: str, action: str = "add") -> None:
    path = folder / "_spark_metadata" / name
    path.parent.mkdir(exist_ok=True)
    entries = [{"path": f"file://{folder}/{one}", "size": 1, "action": action} for one in names]
    path.write_text("\n".join(["v1", *map(json.dumps, entries)]))


def test_temporary_names_are_no_output(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".b.jsonl", "_c.jsonl", "d.jsonl.part", "_temporary/0/e.jsonl"):
        write(tmp_path / "out" / name, 1)
    assert ids(sink(tmp_path), ended=True) == [1]
    assert ids(sink(tmp_path, "{state}/out/*.jsonl"), ended=True) == [1]
    assert sink(tmp_path, "out/*/part-*").where == str(tmp_path / "out")


def test_a_pattern_has_a_name_for_each_folder(tmp_path: Path) -> None:
    write(tmp_path / "out/a/part-0.jsonl", 1)
    write(tmp_path / "out/part-1.jsonl", 2)
    write(tmp_path / "out/b/other.jsonl", 3)
    assert ids(sink(tmp_path, "out/*/part-*")) == [1]
    assert sorted(ids(sink(tmp_path))) == [1, 2, 3]


def test_the_log_of_spark_says_what_is_committed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for number in range(6):
        write(folder / f"part-{number}.json", number)
    log(folder, "0", "part-0.json")
    log(folder, "1", "part-1.json")
    log(folder, ".2.abc.tmp", "part-5.json")
    assert ids(sink(tmp_path)) == [0, 1]
    log(folder, "2.compact", "part-0.json", "part-1.json", "part-2.json")
    log(folder, "0", "part-5.json")  # what a compact file holds is not read again
    log(folder, "3", "part-3.json")
    assert ids(sink(tmp_path)) == [0, 1, 2, 3]
    log(folder, "4", "part-1.json", action="delete")
    assert ids(sink(tmp_path), ended=True) == [0, 2, 3]
    (folder / "part-3.json").unlink()
    assert ids(sink(tmp_path)) == [0, 2]
    with pytest.raises(BadOutput, match=r"committed part-3.json, which is not there"):
        ids(sink(tmp_path), ended=True)


def test_a_file_of_spark_is_committed_by_its_log_and_not_as_it_is_written(tmp_path: Path) -> None:
    folder, made = tmp_path / "out", sink(tmp_path)
    write(folder / "part-0.json", 1)
    log(folder, "0")
    assert made.commits() == frozenset()
    log(folder, "1", "part-0.json")
    assert made.commits() == {"part-0.json"}
    write(folder / "part-1.json", 2)
    assert made.commits() == {"part-0.json"}
    log(folder, "1", "part-0.json", "part-1.json")  # the same names, and more in one of them
    assert made.commits() == {"part-0.json", "part-1.json"}
    write(tmp_path / "plain" / "a.jsonl.part", 1)
    plain = sink(tmp_path, "plain")
    assert plain.commits() == frozenset()
    (tmp_path / "plain" / "a.jsonl.part").rename(tmp_path / "plain" / "a.jsonl")
    assert plain.commits() == {"a.jsonl"}
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").touch()
    assert made.commits() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v2\n", "expected v1; got v2"),
        ('v1\n{"path": "file:///etc/passwd", "action": "add"}', "expected a path in the folder"),
        ("v1\n[1]", "expected a path in the folder and an action"),
        ("v1\n{", "_spark_metadata"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_at_the_end(
    tmp_path: Path, text: str, said: str
) -> None:
    write(tmp_path / "out" / "part-0.json", 0)
    log(tmp_path / "out", "0")
    (tmp_path / "out/_spark_metadata/0").write_text(text)
    assert ids(sink(tmp_path)) == []
    with pytest.raises(BadOutput) as caught:
        ids(sink(tmp_path), ended=True)
    assert said in str(caught.value)


def test_beside_a_folder_that_succeeded_one_that_did_not_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "out/batch-0/part-0.json", 0)
    write(tmp_path / "out/batch-1/day=1/part-0.json", 1)
    assert ids(sink(tmp_path)) == [0, 1]
    (tmp_path / "out/batch-1/_SUCCESS").touch()
    assert ids(sink(tmp_path), ended=True) == [1]
    (tmp_path / "out/_SUCCESS").touch()
    assert ids(sink(tmp_path), ended=True) == [0, 1]


@pytest.mark.parametrize(
    ("name", "whole", "half"),
    [("a.jsonl", b'{"id": 1}\n', b'{"id": 2'), ("a.csv", b"id,n\n1,2\n", b"2,2")],
)
def test_half_a_line_is_no_row_and_an_error_at_the_end(
    tmp_path: Path, name: str, whole: bytes, half: bytes
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_bytes(whole + half)
    made = sink(tmp_path, types={"id": "integer"})
    assert ids(made) == [1]
    with pytest.raises(BadOutput, match=rf"{name}, line \d: expected a whole line; got '"):
        ids(made, ended=True)
    (tmp_path / "out" / name).write_bytes(whole)
    assert ids(made, ended=True) == [1]


def test_an_object_that_ends_without_a_line_end_is_whole(tmp_path: Path) -> None:
    write(tmp_path / "out/a.jsonl", 1, 2, end="")
    assert ids(sink(tmp_path), ended=True) == [1, 2]


def test_parquet_counts_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([{"id": 7}]), path)
    whole, made = path.read_bytes(), sink(tmp_path, "out/*.parquet")
    path.write_bytes(whole[:-9])
    assert ids(made) == []
    with pytest.raises(BadOutput, match=r"\[outputs.priced\] .*a.parquet"):
        ids(made, ended=True)
    path.write_bytes(whole)
    assert ids(made, ended=True) == [7]


def test_neither_links_nor_rows_without_identity_are_output(tmp_path: Path) -> None:
    write(tmp_path / "secret.jsonl", 1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jsonl").symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(BadOutput, match="expected a plain file"):
        ids(sink(tmp_path), ended=True)
    (tmp_path / "out" / "a.jsonl").unlink()
    (tmp_path / "out" / "b.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(BadOutput, match=r"b.jsonl, row 1: expected the field id of identity"):
        ids(sink(tmp_path), ended=True)


def test_what_was_written_just_now_is_being_written(tmp_path: Path) -> None:
    made = sink(tmp_path)
    assert not made.transactions() and made.position() == []
    write(tmp_path / "out/_a.part", 1)
    assert made.transactions() and made.position() != []
    os.utime(tmp_path / "out/_a.part", (1, 1))
    assert not made.transactions()


# -- tables of Delta Lake -------------------------------------------------------------


def table(folder: Path, *rows: int, **more: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    data = pa.table({"id": rows, "day": [date(2024, 1, 1 + one % 2) for one in rows]})
    deltalake.write_deltalake(folder, data, mode="append", **more)


def test_a_table_has_the_rows_of_its_newest_version(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    table(folder, 1, 2, partition_by=["day"])
    table(folder, 2, 3)
    made = sink(tmp_path)
    assert sorted(ids(made)) == [1, 2, 2, 3]
    assert {value["day"] for _, value in made.rows()} == {"2024-01-01", "2024-01-02"}
    import deltalake

    deltalake.DeltaTable(folder).delete("id = 2")
    assert sorted(ids(made, ended=True)) == [1, 3]
    # Written, and not committed.
    pq.write_table(pa.table({"id": [9]}), folder / "day=2024-01-01" / "part-9.parquet")
    assert sorted(ids(made, ended=True)) == [1, 3]


def test_a_table_that_lost_a_file_is_told(tmp_path: Path) -> None:
    table(tmp_path / "out", 1)
    (file,) = (tmp_path / "out").glob("*.parquet")
    file.unlink()
    with pytest.raises(BadOutput, match=r"_delta_log: has committed part-.* which is not there"):
        sink(tmp_path).rows(ended=True)
    assert not sink(tmp_path).rows()


@pytest.mark.parametrize(
    ("text", "said"), [("{", "_delta_log: "), ('{"add": {"path": "/etc/passwd"}}', "_delta_log: ")]
)
def test_a_log_of_a_table_that_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    table(tmp_path / "out", 1)
    (tmp_path / "out/_delta_log/00000000000000000001.json").write_text(text)
    with pytest.raises(BadOutput, match=said):
        sink(tmp_path).rows(ended=True)
    assert not sink(tmp_path).rows()


def test_a_table_with_files_elsewhere_or_a_link_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "out", 1)
    (tmp_path / "other.parquet").write_bytes(b"")
    for path in (tmp_path / "other.parquet", "../other.parquet"):
        add = {"path": str(path), "partitionValues": {}, "size": 1, "modificationTime": 1}
        entry = json.dumps({"add": add | {"dataChange": True}})
        (tmp_path / "out/_delta_log/00000000000000000001.json").write_text(entry)
        with pytest.raises(BadOutput, match=r"has committed .*other.parquet, which is not there"):
            sink(tmp_path).rows(ended=True)
    log_file = tmp_path / "out/_delta_log/00000000000000000001.json"
    log_file.unlink()
    log_file.symlink_to(tmp_path / "other.parquet")
    with pytest.raises(BadOutput, match=r"_delta_log/0+1.json is a link"):
        sink(tmp_path).rows(ended=True)


def test_a_table_that_readers_must_know_more_for_is_refused(tmp_path: Path) -> None:
    table(tmp_path / "out", 1)
    first = tmp_path / "out/_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            features = ["deletionVectors"]
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7}
            line["protocol"] |= {"readerFeatures": features, "writerFeatures": features}
    first.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(BadOutput, match="expected a table without deletionVectors"):
        sink(tmp_path).rows(ended=True)
