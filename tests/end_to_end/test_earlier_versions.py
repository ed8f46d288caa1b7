"""What an earlier version recorded is read by this one."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

#: A pack that version 0.1.0 made of a run of mutant:above-five-cents.
PACK = Path(__file__).parent / "data" / "format-1.tickproof.zip"


def unpacked(folder: Path) -> Path:
    """Return the run folder that the pack holds."""
    with zipfile.ZipFile(PACK) as archive:
        archive.extractall(folder)
    (run,) = folder.glob("*/run.json")
    return run.parent


def test_a_pack_is_judged_as_it_was_then(sessions):
    done = sessions.tickproof("check", PACK)
    assert done.status == 1, done.err
    assert "MS-ABSOLUTE-LIMIT" in done.out and "fail" in done.out


def test_a_pack_is_explained(sessions):
    done = sessions.tickproof("explain", PACK, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)


def test_a_run_folder_without_a_seal_is_refused(sessions, tmp_path):
    done = sessions.tickproof("check", unpacked(tmp_path / "run"))
    assert done.status == 2
    assert "SHA256SUMS" in done.err and "earlier versions" in done.err


def test_a_run_is_replayed_on_an_engine_without_the_defect(sessions):
    done = sessions.tickproof("replay", PACK, "miniature", "--out", "out")
    assert done.status == 0, done.err
    assert "fail" in done.out and "pass" in done.out


def test_a_format_that_is_not_known_is_named(sessions, tmp_path):
    path = unpacked(tmp_path / "run") / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    done = sessions.tickproof("check", path.parent)
    assert done.status == 2
    assert "format" in done.err and "99" in done.err
    shutil.rmtree(tmp_path / "run")
