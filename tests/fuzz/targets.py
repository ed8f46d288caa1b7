"""What is fed: each target takes one hostile input, and raises nothing but what it documents."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv, parquet

from tests.fuzz.mutation import damaged, deep, twisted
from tickproof.conformance.engines import spec
from tickproof.conformance.engines.control_channel import ControlChannel
from tickproof.conformance.errors import HistoryError, InvalidFile
from tickproof.conformance.faults import schedule_file
from tickproof.conformance.history import seal
from tickproof.conformance.log_server import frames
from tickproof.conformance.log_server.frame_splitter import FrameReader, FrameTooLarge, Truncated
from tickproof.conformance.report import json_report
from tickproof.conformance.resources import fixtures
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import judging
from tickproof.conformance.session.pack import archive, opened_run
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.conformance.verdicts import Verdict
from tickproof.generators import csv_market
from tickproof.generators.reading import MISSING_SIDES, TIES, Reading

#: Feeds one input drawn from a generator of random numbers; returns how many it fed.
Target = Callable[[random.Random], int]


class _Bytes:
    """A socket from which some bytes come, in pieces."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data, self._piece, self._at = data, piece, 0

    def recv_into(self, buffer: memoryview) -> int:
        part = self._data[self._at : self._at + min(self._piece, len(buffer))]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def framing(folder: Path) -> Target:
    """Frames of an engine: cut out of the stream, decoded."""
    vectors = json.loads((fixtures() / "vectors" / "frames.json").read_text("utf-8"))
    known = tuple(bytes.fromhex(text) for text in _hex(vectors))

    def feed(draw: random.Random) -> int:
        stream = b"".join(
            damaged(draw, draw.choice(known), known) for _ in range(draw.randint(1, 20))
        )
        reader = FrameReader(
            _Bytes(stream, draw.choice((1, 7, 1 << 16))), 64, draw.choice((64, 4096))
        )  # type: ignore[arg-type]
        fed = 0
        try:
            while (frame := reader.next()) is not None:
                fed += 1
                with contextlib.suppress(frames.BadFrame):
                    frames.decode_request(*frame)
        except (frames.BadFrame, FrameTooLarge, Truncated):
            fed += 1
        return fed

    return feed


def _hex(value: Any) -> list[str]:
    """Return the texts of hexadecimal digits anywhere in a value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [text for one in inner for text in _hex(one)]
    if not isinstance(value, str):
        return []
    digits = value.replace(" ", "")
    with contextlib.suppress(ValueError):
        return [digits] if len(bytes.fromhex(digits)) > 4 else []
    return []


def control_lines(folder: Path) -> Target:
    """Lines of an engine's stdout."""
    given = json.loads((fixtures() / "vectors" / "control.json").read_text("utf-8"))
    lines = tuple(row["line"].encode() for row in given["answers"])

    def feed(draw: random.Random) -> int:
        channel = ControlChannel(lambda: (), lambda: "")
        for op in ("hello", "deploy", "topology", "drain"):
            channel.submit(op, {})
        for _ in range(16):
            line = draw.choice(lines)
            if draw.random() < 0.5:
                line = damaged(draw, line, lines)
            else:
                line = json.dumps(twisted(draw, json.loads(line))).encode()
            if draw.random() < 0.001:
                line = deep(draw, b"[")
            channel.receive(line, overlong=False, t_ns=0)
        return 16

    return feed


def engine_toml(folder: Path) -> Target:
    """engine.toml."""
    known = tuple(path.read_bytes() for path in sorted(fixtures().glob("engines/*/engine.toml")))
    return _toml(folder / "engine.toml", known, spec.load)


def schedules(folder: Path) -> Target:
    """Schedules of faults."""
    text = (
        b'app = "count"\nparams = {emit = "every"}\nworkers = 2\nrate = 1e4\n[input]\n'
        b'records = 1000\npartitions = 2\n[[fault]]\ndo = "kill"\ntarget = "engine"\nat = 0.5\n'
    )

    def load(path: Path) -> None:
        schedule_file.load_all([path])

    return _toml(folder / "schedule.toml", (text,), load)


def _toml(path: Path, known: tuple[bytes, ...], load: Callable[[Path], object]) -> Target:
    def feed(draw: random.Random) -> int:
        text = damaged(draw, draw.choice(known), known)
        if draw.random() < 0.001:
            opening = draw.choice((b"a=[", b"a={b=", b"[a", b"a.", b"[[a]]\n"))
            text = deep(draw, opening)
        path.write_bytes(text)
        with contextlib.suppress(InvalidFile):
            load(path)
        return 1

    return feed


def recorded_markets(folder: Path) -> Target:
    """Recorded markets, as CSV, packed, and as Parquet."""
    quotes = b"ts_ns,symbol,bid,offer,bid_size,offer_size\n" + b"".join(
        b"%d,S%d,10.0001,10.02,100,200\n" % (number * 1000, number % 3) for number in range(5)
    )
    orders = b"ts_ns,symbol,side,price,qty\n" + b"".join(
        b"%d,S%d,B,10.01,5\n" % (number * 1000 + 1, number % 3) for number in range(5)
    )
    files = folder / "quotes.csv", folder / "orders.csv"

    def feed(draw: random.Random) -> int:
        which = draw.randrange(2)
        pack = draw.choice((bytes, bytes, gzip.compress, bz2.compress, _parquet))
        for number, (path, text) in enumerate(zip(files, (quotes, orders), strict=True)):
            text = pack(text)
            path.write_bytes(damaged(draw, text) if number == which else text)
        with contextlib.suppress(csv_market.CsvError):
            csv_market.read_market(
                *files, Reading(draw.random() < 0.3, draw.choice(MISSING_SIDES), draw.choice(TIES))
            )
        return 1

    return feed


def _parquet(text: bytes) -> bytes:
    """Return a table as Parquet."""
    sink = pa.BufferOutputStream()
    parquet.write_table(csv.read_csv(pa.BufferReader(text)), sink)
    return sink.getvalue().to_pybytes()


def _made_run(folder: Path) -> Path:
    recipe = {"kind": "numbers", "records": 20, "seed": 1}
    made = RunFolder(folder / "whole", Scenario("double", "double", {}, recipe))
    made.tables(fetches=[(1_000, 0, 0, 0, 20)], publishes=[(500, 0, 0, 20)])
    given = Path(made.folder, "events.jsonl")
    rows = [
        {"t_ns": 1, "event": "started", "pid": 5, "resume": False},
        {"t_ns": 2, "event": "deployed", "pid": 5, "resume": False},
        {"t_ns": 3, "event": "topology", "processes": [{"pid": 5, "role": "engine", "name": "e"}]},
        {
            "t_ns": 4,
            "event": "have",
            "stream": 0,
            "writer": 0,
            "next_seq": 0,
            "connection": 1,
            "fenced": None,
        },
        {"t_ns": 5, "event": "refused", "code": 1, "text": "t", "op": "FETCH", "connection": 1},
        {"t_ns": 6, "event": "exited", "returncode": 0},
    ]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    made.seal()
    return made.folder


def run_folders(folder: Path) -> Target:
    """Run folders, as `tickproof check` is given them."""
    whole = _made_run(folder)
    run = json.loads((whole / "run.json").read_text("utf-8"))
    rows = [json.loads(line) for line in (whole / "events.jsonl").read_text("utf-8").splitlines()]
    copy = folder / "copy"

    def feed(draw: random.Random) -> int:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        match draw.randrange(5):
            case 0 | 1:
                (copy / "run.json").write_text(json.dumps(twisted(draw, run)), "utf-8")
            case 2:
                lines = twisted(draw, rows)
                lines = lines if isinstance(lines, list) else [lines]
                text = "".join(json.dumps(row) + "\n" for row in lines)
                (copy / "events.jsonl").write_text(text, "utf-8")
            case 3:
                names = ("events.jsonl", "control.jsonl", "run.json", "stderr.log")
                path = copy / draw.choice(names)
                path.write_bytes(damaged(draw, path.read_bytes()))
            case 4:
                tables = [*copy.glob("*.bin"), *copy.glob("output/*"), copy / "input" / "plan.npy"]
                path = draw.choice(tables)
                path.write_bytes(damaged(draw, path.read_bytes()))
        seal.write(copy, {})  # or nothing but the seal would be tried
        _check(copy)
        return 1

    return feed


def packs(folder: Path) -> Target:
    """Packs: of forged runs, and damaged ones."""
    whole = _made_run(folder)
    run = json.loads((whole / "run.json").read_text("utf-8"))
    members = {str(path.relative_to(whole)): path for path in whole.rglob("*") if path.is_file()}
    pack = folder / "run.tickproof.zip"
    archive.write(pack, "run", members)
    good = pack.read_bytes()
    forged = folder / "run.json"

    def feed(draw: random.Random) -> int:
        if draw.random() < 0.5:
            pack.write_bytes(damaged(draw, good))
        else:
            forged.write_text(json.dumps(twisted(draw, run)), "utf-8")
            unsealed = {name: path for name, path in members.items() if name != seal.FILE_NAME}
            archive.write(pack, "run", unsealed | {"run.json": forged})
        with contextlib.suppress(HistoryError), opened_run(pack) as opened:
            _check(opened)
        return 1

    return feed


def _check(folder: Path) -> None:
    """Judge a run folder; a judge that breaks over one is a finding."""
    with contextlib.suppress(HistoryError):
        for outcome in judging.recheck(folder):
            broke = outcome.verdict is Verdict.KIT_ERROR
            json_report.result(outcome, None)
            ended = json.loads((folder / "run.json").read_bytes()).get("ended", {})
            if broke and ended.get("how") == "completed":
                raise AssertionError(f"{outcome.requirement}: {outcome.actual}")


TARGETS: Final[dict[str, Callable[[Path], Target]]] = {
    "frames": framing,
    "control": control_lines,
    "engine-toml": engine_toml,
    "schedules": schedules,
    "csv": recorded_markets,
    "runs": run_folders,
    "packs": packs,
}
