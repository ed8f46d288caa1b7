"""The two halves of a promise: what holds, and what is likely where it does not."""

from __future__ import annotations

import re
from typing import Final

#: Where the likely causes begin.
_CAUSES: Final = re.compile(r"(?<=[.!?])\s+(?=If )")


def halves(promise: str) -> tuple[str, str]:
    """Return what a promise says, and its likely causes of a failure ("" where it names none)."""
    said, *causes = _CAUSES.split(promise.strip(), maxsplit=1)
    return said, "".join(causes)
