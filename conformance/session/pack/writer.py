"""Makes a pack: copies a run with its text redacted, and checks that it is judged the same."""

from __future__ import annotations

import json
import mmap
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.fault_steps import Do, Target
from tickproof.conformance.history import job_run, plain_files, provenance, seal
from tickproof.conformance.history.folder import History, opened, write_json
from tickproof.conformance.history.input_replay import same_input, save_plan
from tickproof.conformance.history.run_record import RunRecord
from tickproof.conformance.session import judging
from tickproof.conformance.session.pack import archive, readme
from tickproof.conformance.session.pack.reader import naming, opened_run
from tickproof.conformance.session.pack.redaction import Redactor
from tickproof.conformance.text import command_line
from tickproof.conformance.verdicts import Outcome, Verdict

SUFFIX: Final = ".tickproof.zip"
#: Generated input up to this size is packed too, for people to look at.
SMALL_INPUT: Final = 1 << 20
#: Of a longer standard error only the end is packed.
STDERR_BYTES: Final = 4 << 20
_CHUNK: Final = 1 << 20
_TEXTS: Final = (".json", ".jsonl")
_CSV: Final = frozenset(("market-csv", "keyed-csv"))
_KEYS: Final = re.compile(r'\\*"(\w+)\\*"\s*:')


@dataclass(frozen=True)
class Packed:
    """A pack that was made.

    root: of the run in the pack, whose texts are not those of the recorded run; "" of the run of a
    job. kept: members that
    still identify the machine, each with the word for what it contains,
    such as ("output/s0.log", "{home}").
    """

    path: Path
    bytes: int
    root: str
    outcomes: list[Outcome]
    kept: list[tuple[str, str]]


def pack(run: Path, target: Path | None) -> Packed:
    """Make one file of a run; ``target`` None: named after the run, in the working folder.

    Raises HistoryError for a run that cannot be judged, OSError where nothing can be written.
    """
    with opened_run(run) as source, tempfile.TemporaryDirectory(prefix="tickproof-") as temporary:
        folder = Path(temporary).resolve()
        if job_run.is_one(source):
            return _pack_job(source, folder, target)
        _copy(source, folder)
        with naming(run, folder):
            before = judging.recheck(folder)
        redact = _redactor(source, folder)
        for path in _texts(folder):
            _rewrite(path, redact)
        _finish_record(folder)
        seal.write(folder, {})
        outcomes = judging.recheck(folder)
        if _gist(before) != _gist(outcomes):
            raise HistoryError(
                f"{run}: once redacted it is judged differently: "
                f"{_gist(outcomes)} instead of {_gist(before)}"
            )
        _finish_verdict(folder / "verdict.json", outcomes)
        with opened(folder) as history:
            text = redact(readme.text(history, outcomes, _members(folder)))
        (folder / readme.NAME).write_text(text, encoding="utf-8")
        seal.renew(folder, "verdict.json", readme.NAME)
        top = _name(history.record)
        path = target or Path(f"{top}{SUFFIX}")
        members = _members(folder)
        archive.write(path, top, members)
        kept = list(_kept(members, redact))
        return Packed(path, path.stat().st_size, seal.root(folder), outcomes, kept)


def _pack_job(source: Path, folder: Path, target: Path | None) -> Packed:
    """Make one file of the run of a job: its record, rows and standard error, and what it decided.

    It has no root: nothing is judged again from its bytes.
    """
    made_at = job_run.read(source).made_at
    _copy_job(source, folder)
    spoken = "".join(one.read_text(encoding="utf-8", errors="replace") for one in _texts(folder))
    folders = [("run", str(one)) for one in (source, source.absolute(), source.resolve())]
    redact = Redactor(made_at or {}, [*folders, ("temp", str(folder))], (), spoken)
    for path in _texts(folder):
        _rewrite(path, redact)
    outcomes = job_run.verdict(folder)
    again = command_line("replay", "FILE", "JOB.TOML")
    job_run.save_verdict(folder, [replace(one, reproduce=again) for one in outcomes])
    record = job_run.read(folder)
    said = readme.of_job(record, outcomes, _members(folder))
    (folder / readme.NAME).write_text(redact(said), encoding="utf-8")
    top = archive.top_folder(f"{record.job_name}-{record.name}-seed{record.seed}")
    path, members = target or Path(f"{top}{SUFFIX}"), _members(folder)
    archive.write(path, top, members)
    return Packed(path, path.stat().st_size, "", outcomes, list(_kept(members, redact)))


def _copy_job(source: Path, folder: Path) -> None:
    """Copy what the kit wrote of a job's run; no link is followed, and no other file is taken."""
    (folder / job_run.OUTPUT).mkdir()
    for name in plain_files.below(source, job_run.OUTPUT):
        if name in (job_run.VERDICT, "stderr.log") or name.startswith(f"{job_run.OUTPUT}/"):
            with plain_files.opened(source, name) as file, (folder / name).open("xb") as copy:
                shutil.copyfileobj(file, copy, _CHUNK)
    record = json.loads(plain_files.read_document(source, job_run.FILE))
    record.pop(provenance.MADE_AT, None)
    write_json(folder / job_run.FILE, record)


def _name(run: RunRecord) -> str:
    """Return the name of a pack's folder: engine, scenario, seed."""
    words = (run.engine.name, run.scenario.name, f"seed{run.seed}")
    return archive.top_folder("-".join(map(str, words)))


def _gist(outcomes: list[Outcome]) -> list[tuple[str, Verdict, str]]:
    return [(outcome.requirement, outcome.verdict, outcome.reason) for outcome in outcomes]


def _members(folder: Path) -> dict[str, Path]:
    """Return what belongs into the pack, by name within the run folder."""
    return {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }


def _copy(source: Path, folder: Path) -> None:
    """Copy the files of a run, so that ``folder`` is a run folder; no link is followed."""
    history = History(source)
    history.verify()
    for name in {*seal.names(source)} - {readme.NAME}:
        if name.startswith("input/"):
            continue
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        with history.opened(name) as file, target.open("xb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)
    kind = history.record.input.recipe["kind"]
    size = sum(row.records * (4 + row.record_size) for row in history.partitions)
    if kind in _CSV or size <= SMALL_INPUT:
        save_plan(same_input(source, history.record)(folder / "input"), folder / "input")
    seal.write(folder, {})


def _texts(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix in _TEXTS or path.name == "stderr.log":
            yield path


def _rewrite(path: Path, redact: Redactor) -> None:
    """Redact a text file in place."""
    if path.name == "stderr.log":
        text = _stderr(path)
    else:
        text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".jsonl":
        text = text[: text.rfind("\n") + 1]  # a torn last line may hold half of a name
    path.write_text(redact(text), encoding="utf-8", errors="surrogateescape")


def _stderr(path: Path) -> str:
    """Return the engine's standard error, or the end of a long one."""
    left_out = max(0, path.stat().st_size - STDERR_BYTES)
    with path.open("rb") as file:
        file.seek(left_out)
        text = file.read().decode("utf-8", "surrogateescape")
    if left_out:
        cut, _, text = text.partition("\n")
        left_out += len(cut.encode("utf-8", "surrogateescape")) + 1
        text = f"[tickproof: {left_out:,} bytes before this were left out]\n{text}"
    return text


def _redactor(source: Path, folder: Path) -> Redactor:
    """Return a redactor for the names that the run recorded, and for those of this machine."""
    history = History(folder)
    deploys = [line for row in history.control if (line := _deploy(row)) is not None]
    states = {str(line["state_dir"]) for line in deploys}
    folders = [("state_dir", state) for state in sorted(states)]
    for path in map(Path, sorted(states)):
        # Runs made before engines had folders of their own kept it in the run folder.
        within = path.name == "state"
        word, place = ("run", path.parent) if within else ("temp", path.parent.parent)
        folders.append((word, str(place)))
    folders += [("run", str(path)) for path in (source, source.absolute(), source.resolve())]
    folders += [("temp", str(folder))]
    # A run over Kafka has none.
    tokens = {str(line["data"]["token"]) for line in deploys if "token" in line["data"]}
    spoken = " ".join(_spoken(history, folder))
    made_at = history.record.made_at
    return Redactor(made_at.model_dump() if made_at else {}, folders, tokens, spoken)


def _spoken(history: History, folder: Path) -> Iterator[str]:
    """Give the words that judges read: they stay, even where a user or host is named so."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    yield json.dumps({k: run.get(k) for k in ("engine", "claims", "scenario", "input")})
    yield from (str(row.get("event")) for row in history.events)
    yield from (*Verdict, *get_args(Do), *get_args(Target))
    for path in _texts(folder):
        if path.suffix in _TEXTS:
            yield from _KEYS.findall(path.read_text(encoding="utf-8", errors="replace"))


def _deploy(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the deploy request of a control line, if it is one."""
    if row["direction"] != "to" or '"deploy"' not in row["line"]:
        return None
    line = json.loads(row["line"])
    return line if line.get("op") == "deploy" else None


def _finish_record(folder: Path) -> None:
    """Take the provenance out of run.json."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    run.pop(provenance.MADE_AT, None)
    write_json(folder / "run.json", run)


def _finish_verdict(path: Path, outcomes: list[Outcome]) -> None:
    """Say how to reproduce it elsewhere; write the present verdicts where none were kept."""
    rows = [outcome.to_json() for outcome in outcomes]
    if path.exists():
        rows = json.loads(path.read_text(encoding="utf-8"))
    again = command_line("replay", "FILE", "ENGINE")  # paths differ from machine to machine
    write_json(path, [row | {"run": ".", "reproduce": again} for row in rows])


def _kept(members: Mapping[str, Path], redact: Redactor) -> Iterator[tuple[str, str]]:
    """Find members whose bytes still identify the machine, such as the engine's output."""
    for name, path in members.items():
        if path.stat().st_size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            for text, word in redact.telling.items():
                if held.find(text.encode("utf-8", "surrogateescape")) >= 0:
                    yield name, word
