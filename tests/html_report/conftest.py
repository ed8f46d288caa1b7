"""Reports and runs as in the tests of reports and explain, and a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.explain.conftest import mutant_run as mutant_run
from tests.explain.conftest import recorded as recorded
from tests.reports.conftest import hostile as hostile
from tests.reports.conftest import ids as ids
from tests.reports.conftest import make_report as make_report
from tests.reports.conftest import one_of_each as one_of_each
from tests.reports.conftest import outcome as outcome


@pytest.fixture
def page_of(browser: Any) -> Any:
    """Open a file, and expect that the browser has nothing to say about it."""

    @contextmanager
    def opened(path: Path, **settings: Any) -> Iterator[Any]:
        said: list[str] = []
        context = browser.new_context(offline=True, **settings)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.resolve().as_uri())
        try:
            yield page
        finally:
            context.close()
        assert said == [path.resolve().as_uri()]

    return opened


@pytest.fixture(scope="session")
def failed_run(mutant_run: Any) -> Path:
    """Return a run that a mutant failed."""
    return mutant_run("offset-not-state", "count-engine-death", "EO-ENGINE-DEATH")
