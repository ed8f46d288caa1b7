"""The tasks of one connection of a proxy: one for each way, which end together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any


@contextlib.asynccontextmanager
async def ended(*tasks: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Cancel the tasks on leaving, and wait for them; raise what the first of them failed with."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
