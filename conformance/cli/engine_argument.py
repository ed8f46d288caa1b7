"""ENGINE on the command line: a name, a path to an engine.toml, mutant:ID or oddity:ID."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickproof.conformance.errors import InvalidFile

if TYPE_CHECKING:
    from tickproof.conformance.engines.spec import EngineSpec


def load(names: Sequence[str], ids: Sequence[str], out: Path) -> list[EngineSpec]:
    """Load every engine before any is started; all errors end in one usage error.

    ``ids`` are the requirements that known_gaps may name. ``mutant:ID`` and ``oddity:ID``
    are made under ``out``.
    """
    from tickproof.conformance.engines import spec
    from tickproof.conformance.resources import fixtures
    from tickproof.conformance.selftest import mutants

    if not names:
        found = ", ".join(engine.name for engine in spec.available(fixtures()))
        raise click.UsageError(f"ENGINE: expected a path to an engine.toml, or one of: {found}")
    loaded, errors = [], []
    for name in names:
        try:
            if mutants.names_one(name):
                copy = mutants.find(name, fixtures())
                path = mutants.make(copy, fixtures(), out / "mutants" / copy.id)
            else:
                path = spec.find(name, fixtures())
            engine = spec.load(path, ids)
            engine.command()  # argv must be found before anything is started
            loaded.append(engine)
        except InvalidFile as error:
            errors.append(str(error))
    if errors:
        raise click.UsageError("\n".join(errors))
    return loaded
