"""Packs: a recorded run in one file, to be checked and replayed elsewhere."""

from conformance.packing.archive import PackError
from conformance.packing.opening import opened_run

__all__ = ["PackError", "opened_run"]
