"""Packs: a recorded run in one file, to be checked and replayed elsewhere."""

from tickproof.conformance.session.pack.archive import PackError
from tickproof.conformance.session.pack.reader import opened_run

__all__ = ["PackError", "opened_run"]
