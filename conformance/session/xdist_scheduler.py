"""Schedule tests in pytest-xdist: all tests of a scenario go to the same process.

The mark ``xdist_group`` would do, but it works through the text of node ids, which
pytest 9.2 no longer lets a plugin change; a scheduler is a documented extension point.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling


class ScenarioScheduling(LoadScopeScheduling):
    """Groups tests by the scenario that they decide on."""

    def _split_scope(self, nodeid: str) -> str:
        # test_requirements.py::test_requirement[EO-TAIL:count-tail]
        return nodeid.partition("[")[2].partition(":")[2] or nodeid
