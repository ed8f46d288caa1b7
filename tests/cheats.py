"""Engines that cheat, written for a test: an engine.toml each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests import modest_engine
from tickproof.conformance.resources import fixtures

_ROGUES = fixtures() / "rogues"
_WORKERS = """
recovery_timeout_s = 10
[claims]
state = "exactly-once"
delivery = "exactly-once"
survives = {survives}
rescale = "{rescale}"
[apps.passthrough]
[apps.count]
emit = ["every"]
"""


def single(folder: Path, *cheat: object, drain_s: int = 30) -> Path:
    """Write an engine.toml that runs engine single, cheating; honest without a cheat."""
    folder.mkdir()
    here = fixtures() / "engines" / "single"
    text = (here / "engine.toml").read_text("utf-8").replace("{here}", str(here))
    assert "drain_timeout_s = 30" in text
    text = text.replace("drain_timeout_s = 30", f"drain_timeout_s = {drain_s}")
    if cheat:
        words = "".join(f', "{word}"' for word in (_ROGUES / "elsewhere.py", *cheat))
        first, _, rest = text.partition("argv = ")
        text = f'{first}argv = ["{{python}}"{words}]\n' + rest.partition("\n")[2]
    (folder / "engine.toml").write_text(text, "utf-8")
    return folder / "engine.toml"


def workers(
    folder: Path,
    name: str,
    survives: Sequence[str] = ("worker", "all-workers"),
    rescale: str = "none",
) -> Path:
    """Write an engine.toml for a class of worker_rogue.py."""
    path = data(folder, name, script="worker_rogue.py")
    text = path.read_text("utf-8")
    claims = _WORKERS.format(survives=json.dumps(survives), rescale=rescale)
    path.write_text(text[: text.index("[claims]")] + claims, "utf-8")
    return path


def data(folder: Path, *words: object, script: str = "data_rogue.py") -> Path:
    """Write an engine.toml for a class of data_rogue.py, which claims passthrough alone."""
    folder.mkdir(parents=True)
    argv = ["{python}", str(_ROGUES / script), *map(str, words)]
    limits = {"startup_timeout_s": 20, "drain_timeout_s": 20}
    path = folder / "engine.toml"
    path.write_text(modest_engine.toml(str(words[0]), argv, language="python", **limits), "utf-8")
    return path
