"""What cannot be used is said before anything starts: exit status 2, file, key, expected."""

from __future__ import annotations

import pytest

from tests.long import few


@pytest.mark.parametrize(
    ("change", "parts"),
    few(
        [
            (("", ""), ["no such engine; expected a path to an engine.toml"]),
            (("[engine]", "[engine"), ["expected TOML", "line 2"]),
            (("language", "langage"), ["langage: unknown key", "language"]),
            (("drain_timeout_s = 20", 'drain_timeout_s = "20"'), ["drain_timeout_s", "expected"]),
            (('"{python}"', '"no-such-program"'), ["argv[0]: expected a program on PATH"]),
            (('"{python}"', '"{here}/none"'), ["argv[0]: expected a program; no such file"]),
            (("[apps.passthrough]", ""), ["apps"]),
        ],
        3,
    ),
    ids=["missing", "not-toml", "unknown-key", "wrong-type", "argv", "argv-path", "no-app"],
)
def test_a_wrong_engine_toml_is_wrong_usage_and_starts_nothing(sessions, change, parts):
    engine = sessions.rogue("Polite")
    engine.write_text(engine.read_text().replace(*change, 1))
    if change == ("", ""):
        engine.unlink()
    done = sessions.judge([engine], "PR-HELLO")

    said = " ".join(done.err.split())
    assert done.status == 2
    assert str(engine) in done.err
    for part in parts:
        assert part in said
    assert "Traceback" not in done.err
    assert not (sessions.folder / "out").exists()


def test_an_out_folder_that_cannot_be_made_is_wrong_usage(sessions):
    (sessions.folder / "out").write_text("in the way")
    done = sessions.tickproof("run", sessions.rogue("Polite"), "--out", "out/deeper")

    assert done.status == 2
    assert "--out: expected a folder that can be written, got out/deeper" in done.err


def prepared(sessions, script: str):
    """Return an engine.toml with a `prepare` of the shell."""
    engine = sessions.rogue("Polite")
    command = f"prepare = ['/bin/sh', '-c', '{script}']"
    engine.write_text(engine.read_text().replace("transports", f"{command}\ntransports", 1))
    return engine


def test_a_prepare_that_fails_is_wrong_usage(sessions):
    engine = prepared(sessions, "echo no compiler; exit 3")
    done = sessions.judge([engine], "PR-HELLO")

    said = " ".join(done.err.split())
    assert done.status == 2
    assert f"{engine}: [engine] prepare: expected status 0, got: status 3" in said
    assert "no compiler" in said and "Traceback" not in said
    assert not list((sessions.folder / "out").glob("*/runs"))


def test_prepare_is_run_once_before_all_runs(sessions):
    engine = prepared(sessions, "echo once >> prepared")
    done = sessions.judge([engine], "PR-HELLO")

    assert done.status == 0
    assert (engine.parent / "prepared").read_text() == "once\n"
