"""The two halves of a promise: what holds, and what is likely where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

#: Where the likely causes begin.
_CAUSES: Final = re.compile(r"(?<=[.!?])\s+(?=If )")


def halves(promise: str) -> tuple[str, str]:
    """Return what a promise says, and its likely causes of a failure ("" where it names none)."""
    said, *causes = _CAUSES.split(promise.strip(), maxsplit=1)
    return said, "".join(causes)


def advice(
    requirement: str, promise: str, why: list[str], evidence: Mapping[str, Any]
) -> str:  # fmt: skip
    """Return the likely causes of a failure where the run itself shows none, "" elsewhere.

    why: what explains it. A run that the engine broke off shows nothing of a promise about
    values: its end is the business of the family PR alone.
    """
    broken_off = evidence.get("ended") == "engine-failure" and not requirement.startswith("PR-")
    return "" if why or broken_off else halves(promise)[1]
