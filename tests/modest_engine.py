"""An engine.toml that claims passthrough and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence

#: Ends before it is asked anything.
ENDS = ("{python}", "-c", "pass")


def toml(
    name: str, argv: Sequence[str] = ENDS, *, language: str = "none", **settings: object
) -> str:
    """Return its text; ``settings``: more keys of [engine], as TOML has them."""
    more = "".join(f"{key} = {value}\n" for key, value in settings.items())
    return f"""
[engine]
name = {json.dumps(name)}
version = "1"
language = "{language}"
argv = {json.dumps(list(argv))}
transports = ["log"]
{more}[claims]
state = "none"
delivery = "at-least-once"
survives = []
rescale = "none"
[apps.passthrough]
"""
