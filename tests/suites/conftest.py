from __future__ import annotations

import os

import pytest
from recorded import Recorded


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "recorded"
    folder.mkdir(exist_ok=True)
    return Recorded(folder)
