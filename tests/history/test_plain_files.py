"""What is read back of a run is what was recorded there, and nothing else of the machine."""

from __future__ import annotations

import hashlib
import os

import pytest

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.digests import BLOCK, BlockDigest
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.pack import writer
from tickproof.conformance.testing.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    recipe = {"kind": "numbers", "records": 100, "seed": 1}
    made = RunFolder(tmp_path / "run", Scenario("made", "double", {}, recipe))
    made.seal()
    return made


def _link(run, secret):
    (run.folder / "fetches.bin").unlink()
    (run.folder / "fetches.bin").symlink_to(secret)


def _folder_link(run, secret):
    secret.rename(secret.with_name("s0.log"))
    for path in (run.folder / "output").iterdir():
        path.unlink()
    (run.folder / "output").rmdir()
    (run.folder / "output").symlink_to(secret.parent)


def _pipe(run, _):
    (run.folder / "fetches.bin").unlink()
    os.mkfifo(run.folder / "fetches.bin")


def _folder(run, _):
    (run.folder / "fetches.bin").unlink()
    (run.folder / "fetches.bin").mkdir()


@pytest.mark.parametrize("planted", [_link, _folder_link, _pipe, _folder])
def test_nothing_but_plain_files_is_read(run, tmp_path, planted):
    (tmp_path / "elsewhere").mkdir()
    secret = tmp_path / "elsewhere" / "secret"
    secret.write_bytes(b"of the machine")
    planted(run, secret)
    name = "output/s0.log" if planted is _folder_link else "fetches.bin"
    with pytest.raises(HistoryError, match=f"{name}: expected a plain file"):
        run.history().opened(name)
    with pytest.raises(HistoryError):
        run.history().verify()


@pytest.mark.parametrize("name", ["../run.json", "/etc/passwd", "output/../../x", "", "a\0b", ".."])
def test_no_name_leads_out_of_the_folder(run, name):
    with pytest.raises(HistoryError, match="expected"):
        plain_files.opened(run.folder, name)


def test_a_pack_holds_nothing_behind_a_link(run, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the machine")
    (run.folder / "stderr.log").unlink()
    (run.folder / "stderr.log").symlink_to(secret)
    target = tmp_path / "copy"
    target.mkdir()
    with pytest.raises(HistoryError, match=r"stderr\.log: expected a plain file"):
        writer._copy(run.folder, target)


def test_a_file_that_changed_after_it_was_recorded_is_named(run):
    run.tables(fetches=[(1, 0, 0, 0, 7)])
    with pytest.raises(HistoryError, match=r"fetches\.bin: changed after it was recorded"):
        _ = run.history().fetches


def test_what_is_written_follows_no_link(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "run.json").symlink_to(mine)
    (tmp_path / "run.part").symlink_to(mine)
    write_json(tmp_path / "run.json", {})
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("sizes", [[], [1], [BLOCK], [BLOCK - 1, 2, 3 * BLOCK, 7] * 3])
def test_blocks_give_the_digest_of_the_whole(sizes):
    digest, data = BlockDigest(), [os.urandom(size) for size in sizes]
    for piece in data:
        digest.update(memoryview(piece))
    assert digest.hexdigest() == hashlib.sha256(b"".join(data)).hexdigest()
    digest.close()


@pytest.mark.parametrize("size", [0, 1, BLOCK, 3 * BLOCK + 7])
@pytest.mark.parametrize("before", [0, 5, 40 * BLOCK])
def test_a_digest_goes_back_to_its_mark(size, before):
    digest, data = BlockDigest(), os.urandom(before)
    digest.update(data)
    digest.mark()
    for _ in range(2):
        digest.update(os.urandom(size))
        digest.go_back()
    digest.update(b"end")
    assert digest.hexdigest() == hashlib.sha256(data + b"end").hexdigest()
    digest.close()
