"""job.toml: how a user's own job is started, what goes in, what comes out, what it claims."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from tickproof.conformance import strict_toml
from tickproof.conformance.engines.security import (
    DEFAULT_MECHANISM,
    Mechanism,
    Security,
    SecurityProtocol,
)
from tickproof.conformance.engines.security import conflicts as security_conflicts
from tickproof.conformance.engines.toml_model import (
    Argument,
    Partitioner,
    RolesTable,
    Seconds,
    Text,
)
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.jobs.user_code import FUNCTION, FUNCTION_WORDS
from tickproof.conformance.strict_toml import Table, did_you_mean, matching, quoted
from tickproof.reference import java

FILE_NAME: Final = "job.toml"
#: Of a column or field, in the words of an error.
_NAME: Final = r"[A-Za-z][A-Za-z0-9_-]*"
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_.][\w.-]*)\}")
#: A word in braces that is so like a placeholder is a misspelt one, in a file with other words.
_NEAR: Final = 0.85
#: What stands for a SQLite file in {state}, and how one that is named begins.
SQLITE: Final = "sqlite"
_SQLITE_FILE: Final = "sqlite:///{state}/"
#: What stands for a database of a server that the kit starts.
POSTGRESQL: Final = "postgresql"

Function = Annotated[str, matching(FUNCTION, FUNCTION_WORDS)]
#: The path of a file below the folder of job.toml.
Below = Annotated[
    str, matching(r"(?!/)(?!(.*/)?\.\.(/|$))[^\x00]+", "a path below job.toml's folder")
]
Address = Annotated[
    str,
    matching(
        rf"{SQLITE}|{POSTGRESQL}|[a-z][a-z0-9+_]*://[^\x00]*",
        f'"{SQLITE}", "{POSTGRESQL}" or an address that begins as postgresql://',
    ),
]
Checkpoint = Annotated[str, matching(r"\{state\}/[^{}]+", "a folder below {state}")]
Catalog = Annotated[str, matching(r"\{state\}/[^{}]+", "a file of SQLite below {state}")]
#: Files of output; a pattern has * or ? in the names of folders or files.
Files = Annotated[
    str,
    matching(
        r"(\{state\}/)?(?!/)(?!(.*/)?(\.\.?)?(/|$))[^\x00{}]+",
        'a folder or files below {state}, as "out" or "out/*.jsonl"',
    ),
]
Topic = Annotated[str, matching(r"[A-Za-z0-9._-]{1,249}", "the name of a topic")]
Claim = Literal["at-least-once", "exactly-once"]
Death = Literal["worker", "engine", "broker"]
CellType = Literal["integer", "number", "boolean"]
Kind = Literal["topic", "sql", "files", "http"]
#: Kind of output -> its keys that no other kind has.
_KEYS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "topic": ("topic", "decode", "partitions"),
    "sql": ("url", "settled"),
    "files": ("types", "catalog"),
    "http": (),
}


def _named(tables: dict[str, Any]) -> dict[str, Any]:
    for name in tables:
        if not re.fullmatch(_NAME, name):
            raise strict_toml.wrong("a name of letters, digits, _ and -", name)
    return tables


class JobTable(Table):
    """[job]. group, keep_timeouts: see docs/own-job.md. prepare: runs once before a session.

    roles: argv is the whole job, which starts its workers by itself.

    render: files beside job.toml; {rendered} is the folder of a worker's copies, with placeholders
    filled in. listen: the port of the broker, for a job that cannot be told one. schemas: what a
    stub of a schema registry, {registry}, has at first, the file of a schema by its subject.
    checkpoint: of the query of Structured Streaming that the job is. security, sasl_mechanism: of
    its Kafka clients.
    """

    argv: list[Argument] = Field(min_length=1)
    prepare: list[Argument] | None = Field(default=None, min_length=1)
    name: Text = ""
    workers: int = Field(default=1, ge=1, le=16)
    roles: RolesTable | None = None
    env: dict[str, Argument] = Field(default_factory=dict)
    render: list[Below] = Field(default_factory=list)
    listen: int | None = Field(default=None, ge=1, le=65535)
    schemas: dict[Text, Below] | None = None
    checkpoint: Checkpoint | None = None
    group: Text = ""
    startup_timeout_s: Seconds = 60.0
    run_timeout_s: Seconds = 300.0
    keep_timeouts: bool = False
    security: SecurityProtocol = "plaintext"
    sasl_mechanism: Mechanism | None = None


class InputTable(Table):
    """[inputs.NAME]: records that are JSON objects, from a function or a file.

    types: of columns of a CSV file, whose cells are text otherwise. encode: makes the bytes of
    a message, which are JSON otherwise. poison: a file that is a message which the job cannot
    read. time: the path of the field that is its timestamp.
    """

    make: Function | None = None
    file: Text | None = None
    types: dict[str, CellType] = Field(default_factory=dict)
    key: Text
    encode: Function | None = None
    poison: Text | None = None
    time: Text | None = None
    partitions: int = Field(default=4, ge=1, le=64)
    rate: int = Field(default=1_000, ge=1, le=1_000_000)
    topic: Topic | None = None
    partitioner: Partitioner = "murmur2"


class OutputTable(Table):
    """[outputs.NAME]: a topic; or the rows of ``sql``, of ``files``, or requests over ``http``.

    catalog: the file of a SQL catalog that has a table of Iceberg. types: of columns of CSV
    files, whose cells are text otherwise. decode: makes an object of the bytes of a message,
    which are JSON otherwise. identity: fields that say which row it is; empty: the key of the
    message, or of the request. counts: the field that says how many records a row has counted.
    settled: a query for the number of records of input whose effect is in the database.
    """

    sql: Text | None = None
    files: Files | None = None
    catalog: Catalog | None = None
    types: dict[str, CellType] = Field(default_factory=dict)
    http: bool = False
    url: Address = SQLITE
    settled: Text | None = None
    topic: Topic | None = None
    decode: Function | None = None
    partitions: int = Field(default=4, ge=1, le=64)
    identity: list[Text] = Field(default_factory=list)
    counts: Text | None = None
    ignore: list[Text] = Field(default_factory=list)

    def sqlite_file(self, name: str) -> str | None:
        """Return the path below {state} of a SQLite database, None for another output."""
        if self.kind != "sql":
            return None
        if self.url == SQLITE:
            return f"{name}.db"
        found = self.url.removeprefix(_SQLITE_FILE)
        return None if found == self.url else found

    @property
    def kinds(self) -> list[Kind]:
        """What it is said to be: one kind, unless job.toml is wrong."""
        said: list[tuple[Kind, bool]] = [
            ("sql", self.sql is not None),
            ("files", self.files is not None),
            ("http", self.http),
        ]
        return [kind for kind, is_it in said if is_it] or ["topic"]

    @property
    def kind(self) -> Kind:
        """Where its rows are read."""
        return self.kinds[0]


class ClaimsTable(Table):
    """[claims]. poison: what the job does with a message that it cannot read.

    workers, partitions: another number of them, of the latter in each input, with which it gives
    the same. idempotent: it gives the same if its input comes twice. recovery_s: so soon after a
    death of all of it the job goes on.
    dead_letter: the output, a topic, into which it then writes the bytes of the message.
    """

    state: Claim
    delivery: Claim
    survives: Annotated[list[Death], Field(min_length=1)]
    oracle: Function | None = None
    poison: Literal["skip", "dead-letter", "stop"] | None = None
    dead_letter: Text | None = None
    recovery_s: Seconds | None = None
    workers: int | None = Field(default=None, ge=1, le=16)
    partitions: int | None = Field(default=None, ge=1, le=64)
    idempotent: bool = False


class UpgradeTable(Table):
    """[upgrade]: what the next version of the job changes; env adds to that of [job].

    back: whether the version before goes on with what the next one has left.
    """

    argv: list[Argument] | None = Field(default=None, min_length=1)
    env: dict[str, Argument] = Field(default_factory=dict)
    workers: int | None = Field(default=None, ge=1, le=16)
    back: bool = True


class JobFile(Table):
    """A whole job.toml."""

    job: JobTable
    upgrade: UpgradeTable | None = None
    inputs: Annotated[dict[str, InputTable], Field(min_length=1), AfterValidator(_named)]
    outputs: Annotated[dict[str, OutputTable], Field(min_length=1), AfterValidator(_named)]
    claims: ClaimsTable


class Job:
    """One loaded job.toml; ``path`` is the absolute path of the file, ``folder`` where it lies."""

    def __init__(self, path: Path, model: JobFile) -> None:
        self.path, self.folder = path, path.parent
        self.model, self.table = model, model.job
        self.inputs, self.outputs, self.claims = model.inputs, model.outputs, model.claims
        self.name = model.job.name or (self.folder.name if path.name == FILE_NAME else path.stem)
        self.workers = model.job.workers
        #: Whether a worker can die while the job lives on.
        self.outlives_worker = self.workers > 1 or model.job.roles is not None
        #: Those that have rows: all but the one for dead letters.
        self.judged_outputs = [one for one in self.outputs if one != self.claims.dead_letter]

    @property
    def security(self) -> Security:
        """What its Kafka clients are set to."""
        return Security(self.table.security, self.table.sasl_mechanism or DEFAULT_MECHANISM)

    def claiming(self, **claims: Any) -> Job:
        """Return the same job with other keys of [claims]; raises InvalidFile."""
        return self._with("claims", claims)

    def scaled(self, workers: int) -> Job:
        """Return the same job with another number of workers."""
        return self._with("job", {"workers": workers})

    def spread(self, partitions: int) -> Job:
        """Return the same job with another number of partitions of each input."""
        given = self.model.model_dump(exclude_unset=True)["inputs"]
        spread = {name: one | {"partitions": partitions} for name, one in given.items()}
        return self._with("inputs", spread)

    def _with(self, table: str, keys: Mapping[str, Any]) -> Job:
        given = self.model.model_dump(exclude_unset=True)
        changed = given | {table: given[table] | keys}
        return Job(self.path, strict_toml.validated(changed, self.path, JobFile))

    @property
    def upgrade(self) -> UpgradeTable | None:
        """What the next version changes, None if there is none."""
        return self.model.upgrade

    def upgraded(self) -> Job:
        """Return the next version."""
        assert self.upgrade is not None
        changed = self.upgrade.model_dump(exclude_none=True, exclude={"back"})
        return self._with("job", changed | {"env": self.table.env | self.upgrade.env})

    def command(self, values: Mapping[str, str]) -> list[str]:
        """Return argv with its placeholders filled, its first word an absolute path."""
        argv = [self._filled(word, values) for word in self.table.argv]
        where = (
            shutil.which(argv[0], path=os.environ.get("PATH")) if os.sep not in argv[0] else None
        )
        return [where or str(self.folder / argv[0]), *argv[1:]]

    def rendered(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return path -> text of the files of ``render`` with their placeholders filled."""
        return {
            name: self._filled(strict_toml.read_text(self.folder / name), values)
            for name in self.table.render
        }

    def schemas(self) -> dict[str, str] | None:
        """Return subject -> schema of its registry, None for a job without; raises InvalidFile."""
        if self.table.schemas is None:
            return None
        found = {}
        for subject, name in self.table.schemas.items():
            found[subject] = strict_toml.read_text(self.folder / name)
            try:
                json.loads(found[subject])
            except (ValueError, RecursionError) as error:
                what = f"expected a schema of Avro, which is JSON: {error}"
                raise InvalidFile(self.folder / name, [what]) from error
        return found

    def environment(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the job's own variables with their placeholders filled."""
        return {name: self._filled(text, values) for name, text in self.table.env.items()}

    def checkpoint(self, state: Path) -> Path | None:
        """Return the folder of the checkpoint in a run with a folder of state."""
        text = self.table.checkpoint
        return None if text is None else Path(text.replace("{state}", str(state), 1))

    def _filled(self, text: str, values: Mapping[str, str]) -> str:
        """Fill the placeholders of a text; {worker} is left to who starts the workers."""
        known = {"here": str(self.folder), "python": sys.executable, **values}
        if "{java_home}" in text:
            try:
                known["java_home"] = str(java.for_spark().home)
            except java.JavaNotFound as error:
                raise self.error(f"{{java_home}}: {error}") from error
        return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)

    def error(self, text: str) -> InvalidFile:
        """Return an error of this file."""
        return InvalidFile(self.path, [text])


def load(path: Path) -> Job:
    """Load a job.toml, or the one in a folder; raises InvalidFile with all its errors."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 (resolve would follow links)
    if path.is_dir():
        path = path / FILE_NAME
    data = strict_toml.read(path)
    model = strict_toml.validated(data, path, JobFile)
    job = Job(path, model)
    if errors := [*_conflicts(job), *_files(job)]:
        raise InvalidFile(path, errors)
    _expect_placeholders(job)
    job.schemas()
    return job


def _conflicts(job: Job) -> Iterable[str]:
    """Find what is wrong between keys."""
    for name, one in job.inputs.items():
        if (one.make is None) == (one.file is None):
            yield f"[inputs.{name}]: expected either make or file"
        if one.types and not (one.file or "").lower().endswith(".csv"):
            yield f"[inputs.{name}] types: expected only beside a CSV file"
    for name, out in job.outputs.items():
        yield from _output_conflicts(f"[outputs.{name}]", out)
    yield from _poison_conflicts(job)
    yield from security_conflicts("[job]", job.table.security, job.table.sasl_mechanism)
    if job.claims.workers and job.table.roles:
        yield "[claims] workers: expected none beside roles, where one command starts all"
    if job.claims.workers == job.workers:
        yield f"[claims] workers: expected another number than that of [job], {job.workers}"
    if job.claims.partitions in {one.partitions for one in job.inputs.values()}:
        yield "[claims] partitions: expected another number than that of any input"
    if job.claims.oracle and (len(job.inputs) > 1 or len(job.judged_outputs) > 1):
        yield "[claims] oracle: expected one input and one output, which it is a function of"
    known, texts = _placeholders(job), _texts(job.table)
    if job.upgrade is not None:
        yield from _upgrade_conflicts(job, job.upgrade)
        yield from _misspelt("upgrade", _texts(job.upgrade), known)
    yield from _misspelt("job", texts, known)
    before = {f"prepare[{at}]": word for at, word in enumerate(job.table.prepare or ())}
    yield from _misspelt("job", before, {"here", "python"})
    if job.table.render and not any("{rendered}" in text for text in texts.values()):
        yield "[job] render: expected {rendered}, the folder of the copies, in argv or env"
    used = job.table.render or any("{registry}" in text for text in texts.values())
    if job.table.schemas is not None and not used:
        yield "[job] schemas: expected {registry}, the address of the registry, in argv or env"


def _upgrade_conflicts(job: Job, upgrade: UpgradeTable) -> Iterable[str]:
    if not upgrade.model_fields_set - {"back"}:
        yield "[upgrade]: expected argv, env or workers, which the next version changes"
    if upgrade.workers and job.table.roles:
        yield "[upgrade] workers: expected none beside roles, where one command starts all"


def _texts(table: JobTable | UpgradeTable) -> dict[str, str]:
    """Return the texts of a table that may have placeholders, by key."""
    texts = {f"env.{name}": text for name, text in table.env.items()}
    return texts | {f"argv[{at}]": word for at, word in enumerate(table.argv or ())}


def _output_conflicts(where: str, out: OutputTable) -> Iterable[str]:
    if len(out.kinds) > 1:
        yield f"{where}: expected one of sql, files, http; got {', '.join(out.kinds)}"
        return
    for kind, keys in _KEYS.items():
        for key in keys:
            if kind != out.kind and key in out.model_fields_set:
                beside = "a topic" if kind == "topic" else kind
                yield f"{where} {key}: expected only beside {beside}"
    if out.kind in ("sql", "files") and not out.identity:
        yield f"{where} identity: missing; required beside {out.kind}: the fields that name a row"


def _poison_conflicts(job: Job) -> Iterable[str]:
    claims = job.claims
    for name, one in job.inputs.items():
        if one.poison and claims.poison is None:
            yield f"[inputs.{name}] poison: expected only beside poison of [claims]"
    if claims.poison != "dead-letter":
        if claims.dead_letter is not None:
            yield '[claims] dead_letter: expected only beside poison = "dead-letter"'
        return
    out = job.outputs.get(claims.dead_letter or "")
    if claims.dead_letter is None:
        yield "[claims] dead_letter: missing; required beside poison: the name of an output"
    elif out is None or out.kind != "topic":
        yield f"[claims] dead_letter: expected an output that is a topic; got {claims.dead_letter}"
    elif not job.judged_outputs:
        yield "[claims] dead_letter: expected one of several outputs; it is the only one"


def _placeholders(job: Job) -> set[str]:
    known = {"bootstrap", "group", "state", "here", "python", "java_home"}
    known |= {"worker"} if job.table.roles is None else set()  # one command starts all
    known |= {"rendered"} if job.table.render else set()
    known |= job.security.names()
    known |= {"registry"} if job.table.schemas is not None else set()
    known |= {f"inputs.{name}" for name in job.inputs}
    served = (name for name, out in job.outputs.items() if out.url == POSTGRESQL)
    known |= {f"outputs.{name}.port" for name in served}
    known |= {f"outputs.{name}.file" for name, out in job.outputs.items() if out.sqlite_file(name)}
    return known | {f"outputs.{name}" for name in job.outputs}


def _misspelt(table: str, texts: Mapping[str, str], known: set[str]) -> Iterable[str]:
    for key, text in texts.items():
        for found in _PLACEHOLDER.findall(text):
            if found not in known:
                yield f"[{table}] {key}: {_unknown(found, known)}"


def _unknown(found: str, known: set[str]) -> str:
    expected = ", ".join(f"{{{one}}}" for one in sorted(known))
    return f"expected one of {expected}; got {{{found}}}{did_you_mean(found, known)}"


def _files(job: Job) -> Iterable[str]:
    """Find files that are named and not there."""
    named = [(f"[inputs.{n}] make", one.make) for n, one in job.inputs.items()]
    named += [(f"[inputs.{n}] file", one.file) for n, one in job.inputs.items()]
    named += [(f"[inputs.{n}] poison", one.poison) for n, one in job.inputs.items()]
    named += [(f"[inputs.{n}] encode", one.encode) for n, one in job.inputs.items()]
    named += [(f"[outputs.{n}] decode", one.decode) for n, one in job.outputs.items()]
    named += [(f"[job] render[{at}]", name) for at, name in enumerate(job.table.render)]
    named += [(f"[job] schemas.{n}", name) for n, name in (job.table.schemas or {}).items()]
    for key, text in [*named, ("[claims] oracle", job.claims.oracle)]:
        if (
            text is not None
            and not (job.folder / text.rpartition(":")[0 if ".py:" in text else 2]).is_file()
        ):
            yield f"{key}: expected a file beside job.toml; got {quoted(text)}"
    versions = {"job": job} | ({"upgrade": job.upgraded()} if job.upgrade else {})
    for table, version in versions.items():
        # A path may be that of a program which prepare builds.
        built = version.table.prepare is not None and os.sep in version.table.argv[0]
        if not built and not os.access(version.command({})[0], os.X_OK):
            words = quoted(version.table.argv[0])
            yield f"[{table}] argv[0]: expected a program on PATH or beside job.toml; got {words}"


def _expect_placeholders(job: Job) -> None:
    """Raise InvalidFile for a file of ``render`` without a placeholder, or with one misspelt.

    Other words in braces are the file's own.
    """
    known = _placeholders(job)
    for name in job.table.render:
        path = job.folder / name
        errors, count = list[str](), 0
        for number, line in enumerate(strict_toml.read_text(path).splitlines(), 1):
            for found in _PLACEHOLDER.findall(line):
                count += found in known
                ours = found.startswith(("inputs.", "outputs."))
                near = difflib.get_close_matches(found, known, 1, _NEAR)
                if found not in known and (ours or near):
                    errors.append(f"line {number:,}: {_unknown(found, known)}")
        if not count and not errors:
            errors = ["expected a placeholder as {bootstrap}; a file without needs no render"]
        if errors:
            raise InvalidFile(path, errors)
