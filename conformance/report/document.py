"""The head of every result document, how one is written, and how it is read again."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tickproof import conformance
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.report import machine, whole_file
from tickproof.conformance.strict_toml import quoted
from tickproof.conformance.text import shown

FORMAT: Final = 1
#: The same for people, beside each document.
PAGE_NAME: Final = "report.html"
#: Longest text of one field, in characters; what an engine says must not fill the disk.
TEXT_LIMIT: Final = 4000


class Model(BaseModel):
    """A part of a document: no key but those it names, and nothing changes."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Kit(Model):
    """The judge: version, and the git hash where it runs from a checkout."""

    version: str
    git: str | None


class Engine(Model):
    """The engine under test, as its engine.toml names it; a job has no version nor language."""

    name: str
    version: str
    language: str
    toml: str = Field(description="path relative to the working folder, or the file name only")
    asked: str = Field(default="", description="as the command named it, if not by a whole path")
    over: str = Field(default="", description="versions of Kafka, Java and the kit's client")

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}".strip()

    @property
    def facts(self) -> str:
        """Name, version, language and file."""
        return ", ".join(filter(None, (self.title, self.language, self.toml)))


class Host(Model):
    """The machine, without anything that names its owner."""

    platform: str
    cpu: str
    cpus: int = Field(ge=1)
    memory_bytes: int = Field(ge=0)
    python: str
    load: float | None = Field(
        default=None, description="processes that ran or waited to run, over the last minute"
    )


class Written(Model):
    """What a file holds. format: version of the form; another one is refused."""

    FILE_NAME: ClassVar[str]

    format: Literal[1]

    def text(self) -> str:
        """Return the document as JSON."""
        return self.model_dump_json(indent=2)

    def write(self, folder: Path) -> Path:
        """Write the document into a folder, whole or not at all; returns its path."""
        return whole_file.write(folder / self.FILE_NAME, f"{self.text()}\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a document; a link is not followed. Raises HistoryError with what is wrong."""
        try:
            return cls.model_validate_json(plain_files.read_document(path.parent, path.name))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place, why = ".".join(map(str, first["loc"])), first["msg"]
            if why.startswith("Input should be"):
                why = (
                    f"{why.replace('Input should be', 'expected', 1)}, got {quoted(first['input'])}"
                )
            why = f"{place}: {why}" if place else why
        except OSError as error:
            why = str(error.strerror)
        raise HistoryError(f"{path}: expected a {cls.FILE_NAME}: {shown(why, TEXT_LIMIT)}")


class Document(Written):
    """What one command found. kind: which command's it is."""

    kind: str
    kit: Kit
    host: Host


def this_kit() -> Kit:
    """Return the kit part of a document: this one."""
    return Kit(version=conformance.__version__, git=machine.git_hash())


def this_host() -> Host:
    """Return the host part of a document: this machine."""
    return Host(
        platform=machine.system(),
        cpu=machine.cpu_model(),
        cpus=machine.usable_cpus(),
        memory_bytes=machine.memory_bytes(),
        python=platform.python_version(),
        load=round(os.getloadavg()[0], 1),
    )


def engine_facts(
    name: str, version: str, language: str, toml: Path, asked: str = "", over: str = ""
) -> Engine:
    """Return the engine part of a document; a path outside the working folder is cut."""
    path = toml.resolve()
    here = Path.cwd()
    shown = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
    return Engine(
        name=bounded(name),
        version=bounded(version),
        language=bounded(language),
        toml=shown,
        asked="" if Path(asked).is_absolute() else bounded(asked),
        over=bounded(over),
    )


def bounded(text: object) -> str:
    """Return text that any encoder takes: no lone surrogates, at most TEXT_LIMIT characters."""
    whole = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    if len(whole) <= TEXT_LIMIT:
        return whole
    return f"{whole[:TEXT_LIMIT]}... ({len(whole) - TEXT_LIMIT} characters cut)"
