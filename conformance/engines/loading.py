"""Load modules with less of the processor."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

#: The library below numpy that the kit never calls: it would start a thread for each processor
#: when it is loaded, and they spin.
_THREADS = "OPENBLAS_NUM_THREADS"


def one_thread() -> dict[str, str]:
    """Return what the environment has to say while numpy is loaded; a user's own word counts."""
    return {_THREADS: os.environ.get(_THREADS, "1")}


@contextmanager
def loading() -> Iterator[None]:
    """Import modules within.

    They stay to the end, so the garbage collector never looks at them: neither while they come
    nor when the process ends. The environment is then as before: engines inherit it.
    """
    given, collects = os.environ.get(_THREADS), gc.isenabled()
    os.environ.update(one_thread())
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
        if given is None:
            del os.environ[_THREADS]
