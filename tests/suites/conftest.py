from __future__ import annotations

import pytest
from recorded import Recorded


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    return Recorded(tmp_path_factory.mktemp("recorded"))
