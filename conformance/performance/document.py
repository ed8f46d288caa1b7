"""Parts that documents of all measurements share: the machine, and how JSON is written."""

from __future__ import annotations

import json
import platform
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.latency.figures import as_json
from tickproof.conformance.report import machine
from tickproof.conformance.report.document import Model, Written


class Part(Model):
    """A part of a document: no value is converted."""

    model_config = ConfigDict(strict=True)


class Machine(Part):
    """What figures depend on; kit: its version and, in a checkout, the commit."""

    cpu: str
    cpus: int
    memory_bytes: int
    platform: str
    python: str
    numpy: str
    kit: str


class EngineName(Part):
    """The engine of a measurement, as its engine.toml names it."""

    name: str
    version: str


class MeasuredEngine(EngineName):
    """The same, with the language it is written in."""

    language: str

    @classmethod
    def of(cls, spec: EngineSpec) -> MeasuredEngine:
        """Return what a document says of an engine."""
        return cls(name=spec.name, version=spec.version, language=spec.language)


class Measurement(Part, Written):
    """What was measured on one machine; interrupted: what ended it early, in words."""

    format: Literal[1] = 1
    machine: Machine
    interrupted: str | None = Field(default=None, exclude_if=lambda why: why is None)

    def text(self) -> str:
        """Return the document as JSON, an infinite number as the text "inf"."""
        return json.dumps(as_json(self.model_dump(mode="json")), indent=1)


def this_machine() -> Machine:
    """Return the machine part of a document: this one."""
    return Machine(
        cpu=machine.cpu_model(),
        cpus=machine.usable_cpus(),
        memory_bytes=machine.memory_bytes(),
        platform=machine.system(),
        python=platform.python_version(),
        numpy=np.__version__,
        kit=machine.version_text(),
    )
