"""A session leaves nothing in the temporary folder."""

from __future__ import annotations

import pytest

from tests.long import LONG

#: Engines, each with a requirement; the second is killed and started again.
ENGINES = [
    ("minimal", "SL-PASSTHROUGH"),
    pytest.param("miniature", "EO-ENGINE-DEATH", marks=LONG),
    pytest.param("spark", "SL-PASSTHROUGH", marks=LONG),
]


@pytest.mark.parametrize(("engine", "requirement"), ENGINES)
def test_the_temporary_folder_is_as_it_was(sessions, monkeypatch, engine, requirement):
    temporary = sessions.folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    done = sessions.tickproof("run", engine, "--only", requirement, "--seed", 1, "--out", "out")
    assert done.status == 0, done.out
    # Below its own folders an engine may leave what it likes; of these none is left either.
    assert [path.name for path in temporary.iterdir()] == []
