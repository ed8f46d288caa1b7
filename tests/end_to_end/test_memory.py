"""What files hold costs a command little memory, however they were made."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from psutil import NoSuchProcess

from tests.long import LONG, few
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.pack import archive
from tickproof.conformance.testing.run_folder import RunFolder

MIB = 1 << 20
#: The most that an input has, and that a command may take for it.
SIZE, MOST = 64 * MIB, 512 * MIB


def made(path: Path) -> RunFolder:
    recipe = {"kind": "numbers", "records": 100, "seed": 1}
    return RunFolder(path, Scenario("passthrough", "double", {}, recipe))


def record_of(head: bytes, piece: bytes, tail: bytes) -> Callable[[Path], None]:
    """Return what makes a folder with a run.json of 64 MiB."""

    def make(path: Path) -> None:
        path.mkdir()
        (path / "run.json").write_bytes(head + piece * (SIZE // len(piece) - 8) + tail)

    return make


def file_of(name: str, piece: bytes, tail: bytes = b"") -> Callable[[Path], None]:
    """Return what makes a sealed run with a file of 64 MiB."""

    def make(path: Path) -> None:
        run = made(path)
        (path / name).write_bytes(piece * (SIZE // len(piece) - 8) + tail)
        run.seal()

    return make


def bomb(path: Path) -> None:
    """Write a small pack of a large file, which is not the one that its manifest names."""
    listed = {"fetches.bin": {"bytes": 8 * SIZE, "sha256": "0" * 64}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as pack:
        with pack.open("top/fetches.bin", "w") as member:
            for _ in range(8):
                member.write(bytes(SIZE))
        pack.writestr("top/manifest.json", json.dumps({"format": 1, "members": listed}))


def packed_table(path: Path) -> None:
    """Write a pack, of some kilobytes, of a sealed run with a long table."""
    folder = path.with_name("run")
    file_of("fetches.bin", bytes(MIB))(folder)
    files = {str(f.relative_to(folder)): f for f in folder.rglob("*") if f.is_file()}
    archive.write(path, "run", files)


INPUTS: dict[str, Callable[[Path], None]] = {
    "a record of many lists": record_of(b'{"a":[', b"[],", b"[]]}"),
    "a record that nests deep": record_of(b"", b"[", b""),
    "a record of one long string": record_of('{"a":"\N{GRINNING FACE}'.encode(), b"x", b'"}'),
    "a pipe": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "many events": file_of("events.jsonl", b"{}\n"),
    "an event that nests deep": file_of("events.jsonl", b"[", b"\n"),
    "many empty lines": file_of("events.jsonl", b"\n"),
    "a long table": file_of("fetches.bin", bytes(MIB)),
    "output of nothing": file_of("output/s0.log", bytes(MIB)),
    "a pack of zeros": bomb,
    "a pack of a long table": packed_table,
}


#: A command that writes what it has used into a file: what wait4 says counts its parent, too.
MEASURED = """
import atexit, pathlib, runpy, sys
used = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: used.write_text(pathlib.Path("/proc/self/status").read_text()))
runpy.run_module("tickproof", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("name", few(INPUTS))
def test_memory_stays_below_512_mib(tmp_path, name):
    INPUTS[name](tmp_path / "input")
    words = [sys.executable, "-c", MEASURED, tmp_path / "used", "check", tmp_path / "input"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode in (1, 2, 3, 4), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", (tmp_path / "used").read_text(), re.MULTILINE)
    assert 0 < int(peak) * 1024 < MOST, done.stdout


def recordings(folder: Path, other: int) -> list[str | Path]:
    """Write two recordings of 64 MiB; return a command that judges them."""
    sides = [folder / name for name in ("in.jsonl.zst", "out.jsonl.zst")]
    for path, more in zip(sides, (0, other), strict=True):
        with pa.CompressedOutputStream(path, "zstd") as file:
            for begin in range(0, 9_200_000, 100_000):
                numbers = range(begin, begin + 100_000)
                lines = (f'{{"id":{n},"k":{n % 5000},"v":{n * n % 997 + more}}}\n' for n in numbers)
                file.write("".join(lines).encode())
    return ["judge", *sides, "--identity", "id", "--key", "k"]


def market(folder: Path, back: int) -> list[str | Path]:
    """Write a market of 10 million short rows; return a command that reads it."""
    sides = {
        "quotes.csv.zst": ("ts_ns,symbol,bid,offer,bid_size,offer_size", ",A,1.01,1.02,1,1\n"),
        "orders.csv.zst": ("ts_ns,symbol,side,price,qty", ",A,B,1.01,1\n"),
    }
    for name, (head, row) in sides.items():
        with pa.CompressedOutputStream(folder / name, "zstd") as file:
            file.write(f"{head}\n".encode())
            for begin in range(0, 5_000_000, 100_000):
                file.write(
                    "".join(f"{abs(n - back)}{row}" for n in range(begin, begin + 100_000)).encode()
                )
    paths = [folder / name for name in sides]
    return ["generate", "market", "--from-csv", *paths, "--out", folder / "market.log"]


@LONG
@pytest.mark.parametrize(
    ("make", "seed", "status"),
    [(recordings, 0, 0), (recordings, 1, 1), (market, 0, 0), (market, 9_000_000, 0)],
    ids=["equal", "all other values", "a market", "a market that goes back"],
)
def test_packed_input_stays_below_512_mib(tmp_path, make, seed, status):
    """Pages of mapped files do not count: they make room where other memory is short."""
    words = [sys.executable, "-m", "tickproof", *make(tmp_path, seed)]
    peak = 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as command:
        while command.poll() is None:
            with contextlib.suppress(NoSuchProcess):
                used = psutil.Process(command.pid).memory_info()
                peak = max(peak, used.rss - used.shared)
            time.sleep(0.02)
    assert command.returncode == status
    assert 0 < peak < MOST
