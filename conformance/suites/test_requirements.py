"""A pytest item of each requirement and each scenario that decides it, made by the plugin."""

from collections.abc import Callable


def test_requirement(tickproof_decide: Callable[[], None]) -> None:
    """Decide one requirement on the run of one scenario."""
    tickproof_decide()
