"""Fixtures folders of a few mutants and sound variants, all about `double`: one short scenario."""

from __future__ import annotations

import shutil
from pathlib import Path

from tickproof.conformance.resources import fixtures

#: An edit that makes no difference, and one that makes double a passthrough.
HARMLESS = ("apps.py", "def double(", "# Nothing is different.\ndef double(")
DEFECT = (
    "apps.py", "return App({}, double, True, join)", "return App({}, passthrough, True, join)",
)  # fmt: skip


def house(folder: Path) -> Path:
    """Make a fixtures folder with the sound engines and no copies of them yet."""
    for name in ("miniature", "single", "minimal", "spark"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(fixtures() / "engines" / name, folder / "engines" / name, ignore=ignored)
    (folder / "mutants").mkdir()
    (folder / "sound_variants").mkdir()
    return folder


def mutant(folder: Path, id_: str, edit: tuple[str, str, str], **more: str) -> None:
    """Add a mutant of the miniature that names SL-DOUBLE."""
    facts = {
        "requirement": '"SL-DOUBLE"',
        "shows": '"no expected payload"',
        "headline": '"."',
    } | more
    _write(folder / "mutants" / f"{id_}.toml", id_, {"defect": '"a defect"'} | facts, edit)


def sound_variant(folder: Path, id_: str, edit: tuple[str, str, str], **more: str) -> None:
    """Add a sound variant of the miniature that is tried with double only."""
    facts = {"difference": '"it is odd"', "apps": '["double"]'} | more
    _write(folder / "sound_variants" / f"{id_}.toml", id_, facts, edit)


def _write(path: Path, id_: str, facts: dict[str, str], edit: tuple[str, str, str]) -> None:
    lines = [f'id = "{id_}"', *(f"{key} = {value}" for key, value in facts.items())]
    file, old, new = edit
    lines += ["[[edit]]", f'file = "{file}"', f"old = '''{old}'''", f"new = '''{new}'''"]
    path.write_text("\n".join(lines) + "\n")
