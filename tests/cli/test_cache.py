"""`tickproof cache` lists what the kit keeps, and removes it when asked."""

from __future__ import annotations

from tests.long import LONG


@LONG
def test_the_cache_is_listed_and_cleared(sessions, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(sessions.folder / "cache"))
    monkeypatch.setenv("TMPDIR", str(sessions.folder))
    kept = sessions.folder / "cache" / "tickproof"
    kept.mkdir(parents=True)
    (kept / "spark-1.jsa").write_bytes(bytes(2_000))
    mine = sessions.folder / "mine"
    mine.mkdir()
    (mine / "file").write_bytes(bytes(5))
    (kept / "link").symlink_to(mine)

    listed = sessions.tickproof("cache")
    assert listed.status == 0
    assert f"2,000 bytes  {kept / 'spark-1.jsa'}" in listed.out
    assert kept.exists()

    assert sessions.tickproof("cache", "--clear").out.splitlines()[-1] == f"removed {kept}"
    assert not kept.exists()
    assert [path.name for path in mine.iterdir()] == ["file"]
    assert sessions.tickproof("cache").out == "nothing is cached\n"
