"""Histories larger than one machine: the same checkers, each on a part, on Spark.

Every promise about values holds within one key, one symbol, one payload or one writer.
So records are cut into blocks by that, shuffled, and each part is judged by the checker
that judges small histories whole. What the parts found is merged by its place in the
history; the driver explains the few earliest findings and holds nothing else.

Run folder and kit must stand at the same path on every machine.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from conformance import session
from conformance.verdicts import Outcome


class NotStarted(RuntimeError):
    """Spark could not be started; the message says why, and what to do."""


def recheck(folder: Path, master: str) -> list[Outcome]:
    """Judge a recorded run again, its values on Spark; see session.recheck.

    ``master``: a Spark master such as local[*]. Raises NotStarted and HistoryError.
    """
    if missing := [name for name in ("pyspark", "pandas") if find_spec(name) is None]:
        raise NotStarted(f"{' and '.join(missing)} not found; pip install 'tickproof[spark]'")
    from conformance.at_scale import history, spark

    with spark.session(master) as started:
        return session.recheck(folder, history.opener(started))
