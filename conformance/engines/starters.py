"""Engines to start from: a folder with an engine.toml and an adapter or app that pass tier 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.spec import FILE_NAME
from tickproof.conformance.errors import RequestError
from tickproof.conformance.resources import fixtures
from tickproof.conformance.text import shown

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_OWN_NAME: Final = re.compile(r'^name = ".*"$', re.MULTILINE)
_VERSION: Final = re.compile(r'^version = ".*"$', re.MULTILINE)
_NEW: Final = "0.1.0"
#: What the adapters over the log answer to hello and topology.
_ANSWERED: Final = re.compile(rb'(\\?")(minimal|1\.0\.0)(?=\1)')
_ABOUT: Final = re.compile(r"\A(?:#.*\n)+")


@dataclass(frozen=True)
class Starter:
    """Files below fixtures/: an engine.toml, and what is copied beside it as it is."""

    settings: str
    files: tuple[str, ...]


def _starter(folder: str, *names: str) -> Starter:
    """Return a starter that lies in one folder as a whole."""
    return Starter(f"{folder}/{FILE_NAME}", tuple(f"{folder}/{name}" for name in names))


#: (transport, language) -> what to start from.
STARTERS: Final[Mapping[tuple[str, str], Starter]] = {
    ("log", "python"): _starter("engines/minimal", "adapter.py"),
    ("log", "go"): _starter("starters/log-go", "main.go", "go.mod"),
    ("log", "node"): _starter("starters/log-node", "adapter.mjs"),
    ("log", "java"): _starter("starters/log-java", "Adapter.java"),
    ("log", "rust"): _starter("starters/log-rust", "main.rs", "Cargo.toml"),
    ("kafka", "python"): Starter(
        f"starters/kafka-python/{FILE_NAME}",
        ("starters/kafka-python/app.py", "engines/bytewax/run.py", "engines/bytewax/prepare.py"),
    ),
    ("kafka", "java"): _starter(
        "engines/kafka-streams", "App.java", "jars.toml", "run.py", "prepare.py"
    ),
    ("kafka", "go"): _starter(
        "engines/kafka-go",
        "main.go", "apps.go", "states.go", "go.mod", "go.sum", "run.py", "prepare.py",
    ),
    ("kafka", "node"): _starter(
        "engines/kafkajs", "app.mjs", "package.json", "package-lock.json", "prepare.py"
    ),
}  # fmt: skip

_JOB_FILES: Final = ("app.py", "inputs.py", "job.toml", "oracle.py")
_JOB_TEST: Final = "starters/job-python/test_job.py"
#: What a job is written with -> a job that writes to SQLite, its declaration, inputs and oracle,
#: and its test.
JOBS: Final[Mapping[str, tuple[str, ...]]] = {
    "python": (*(f"jobs/totals-sql/{file}" for file in _JOB_FILES), _JOB_TEST),
    "spark": (*(f"jobs/totals-spark/{file}" for file in (*_JOB_FILES, "jars.toml")), _JOB_TEST),
}


def write(name: str, transport: str, language: str, parent: Path) -> Path:
    """Write the folder of a new engine into ``parent``; returns the path of its engine.toml.

    Raises RequestError: no such starter, a name that is none, or a folder that exists or
    cannot be written.
    """
    starter = STARTERS.get((transport, language))
    if starter is None:
        there = [lang for spoken, lang in STARTERS if spoken == transport]
        expected = f"not yet with --{transport}: expected one of {', '.join(there)}"
        raise RequestError(f"--lang: {expected}; got {language}")
    settings = (fixtures() / starter.settings).read_text("utf-8")
    files = _sources(starter.files)
    if transport == "log":
        files = {file: _answering(source, name) for file, source in files.items()}
    files[FILE_NAME] = _renamed(settings, name).encode()
    return _written(name, files, parent) / FILE_NAME


def write_job(name: str, parent: Path, kind: str = "python") -> Path:
    """Write the folder of a new job of a user's own, with a test; returns that folder.

    ``kind``: one of JOBS. Raises RequestError as `write` does.
    """
    return _written(name, _sources(JOBS[kind]), parent)


def _sources(files: Iterable[str]) -> dict[str, bytes]:
    paths = [fixtures() / file for file in files]
    return {path.name: path.read_bytes() for path in paths}


def _written(name: str, files: Mapping[str, bytes], parent: Path) -> Path:
    if not _NAME.fullmatch(name):
        expected = "small letters, digits and dashes, the first a letter, at most 40"
        raise RequestError(f"NAME: expected {expected}; got {shown(repr(name), 80)}")
    folder = parent / name
    try:
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    except OSError as error:
        expected = f"expected a folder that can be made, got {folder}"
        raise RequestError(f"NAME: {expected}: {error.strerror}") from error
    return folder


def _renamed(settings: str, name: str) -> str:
    text = _OWN_NAME.sub(f'name = "{name}"', settings, count=1)
    text = _VERSION.sub(f'version = "{_NEW}"', text, count=1)
    return _ABOUT.sub("", text)


def _answering(source: bytes, name: str) -> bytes:
    """Have an adapter answer with the name and version of the new engine."""
    new = {b"minimal": name.encode()}
    return _ANSWERED.sub(lambda found: found[1] + new.get(found[2], _NEW.encode()), source)
