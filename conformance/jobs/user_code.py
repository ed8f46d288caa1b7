"""Functions of the user's files, and what they raise, in words."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.text import shown

#: What names a function of a file, and the same in words.
FUNCTION: Final = r"[^:]+\.py:[A-Za-z_]\w*"
FUNCTION_WORDS: Final = "FILE.py:FUNCTION"
#: Calls of a traceback that are shown.
_FRAMES: Final = 3


def function(folder: Path, name: str) -> Callable[..., Any]:
    """Return the function that "FILE.py:FUNCTION" names; raises InvalidFile."""
    file, _, word = name.rpartition(":")
    path = folder / file
    spec = importlib.util.spec_from_file_location(f"tickproof_job_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidFile(path, [f"it cannot be loaded: {raised(error)}"]) from error
    finally:
        sys.path.remove(str(folder))
    found = getattr(module, word, None)
    if not callable(found):
        raise InvalidFile(path, [f"expected a function {word}; there is none"])
    return found  # type: ignore[no-any-return]


def raised(error: Exception) -> str:
    """Return what a call of the kit's raised, and where: the innermost calls, outermost first."""
    said = shown(f"{type(error).__name__}: {error}", 300)
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is the kit's
    places = [
        f"{Path(one.filename).name}, line {one.lineno}: {shown(one.line or '', 120)}"
        for one in frames
        if not one.filename.startswith("<frozen ")
    ]
    return f"{said} ({'; '.join(places[-_FRAMES:])})" if places else said
