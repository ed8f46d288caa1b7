"""A pytest item of each requirement and each scenario that decides it, made by the plugin."""

from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.judge import Judge


def test_requirement(history: History, tickproof_judge: Judge) -> None:
    """Decide one requirement on the run of one scenario."""
    tickproof_judge(history)
