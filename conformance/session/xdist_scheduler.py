"""How pytest-xdist hands tests to processes: all tests of a scenario to the same one.

The mark ``xdist_group`` would do, but it works through the text of node ids, which
pytest 9.2 no longer lets a plugin change; a scheduler is a documented extension point.
"""

from __future__ import annotations

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from tickproof.conformance.suites.judge import JUDGES, import_suites


class ScenarioScheduling(LoadScopeScheduling):
    """Groups tests by the scenario that they decide on."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        import_suites()
        self._scenarios = {
            (judge.__module__.rpartition(".")[2], judge.__name__): scenario
            for scenario, judges in JUDGES.items()
            for _, judge in judges
        }

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        return self._scenarios.get((Path(path).stem, name), nodeid)
