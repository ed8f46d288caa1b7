from __future__ import annotations

import pytest

from tests.suites.recorded import shared


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    return shared(tmp_path_factory)
