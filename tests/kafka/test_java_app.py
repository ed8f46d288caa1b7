"""Engines in Java: prepare.py makes once what run.py starts with."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.long import LONG
from tickproof.conformance.kafka import jars

ENGINE = Path(__file__).parents[2] / "fixtures" / "engines" / "kafka-streams"
APP = """\
public class App {
  static class Client {
    static void call(String[] address) throws Exception {
      new java.net.Socket(address[0], Integer.parseInt(address[1]));
      Thread.sleep(Long.MAX_VALUE);
    }
  }
  public static void main(String[] args) throws Exception {
    String address = System.getenv("TICKPROOF_BOOTSTRAP");
    if (address == null) System.out.println("no broker");
    else Client.call(address.split(":"));
  }
}
"""
FAILS = 'public class App { public static void main(String[] args) { throw new Error("no"); } }'


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Return a folder with App.java, whose one jar is there already."""
    if shutil.which("javac") is None or shutil.which("jar") is None:
        pytest.skip("no JDK")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "App.java").write_text(APP)
    jar = folder / "one-1.0.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("one", "")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    (folder / "jars.toml").write_text(
        f'name = "sample"\ncoordinates = ["o:one:1.0"]\n[sha256]\n"one-1.0.jar" = "{digest}"\n'
    )
    cached = tmp_path / "cache" / "tickproof" / jars.load(folder / "jars.toml").folder
    cached.mkdir(parents=True)
    jar.rename(cached / jar.name)
    return folder


def done(script: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ENGINE / script), str(folder), *flags],
        env=os.environ | {"TICKPROOF_STATE": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@LONG
def test_a_start_takes_classes_from_the_archive(engine, tmp_path):
    assert done("prepare.py", engine).returncode == 0
    (app,) = (tmp_path / "cache" / "tickproof").glob("java-app-*")
    assert sorted(path.name for path in app.iterdir()) == ["app.jar", "app.jsa", "jars"]
    started = done("run.py", engine, "-Xlog:class+load")
    assert started.returncode == 0 and "no broker" in started.stdout
    assert "App source: shared objects file" in started.stdout
    made = (app / "app.jsa").stat()
    assert done("prepare.py", engine).returncode == 0
    assert (app / "app.jsa").stat() == made
    assert not list(app.parent.glob("tmp*"))


@LONG
def test_an_archive_is_no_condition(engine, tmp_path):
    assert done("prepare.py", engine).returncode == 0
    (app,) = (tmp_path / "cache" / "tickproof").glob("java-app-*")
    (app / "app.jsa").unlink()
    assert (done("run.py", engine).stdout, done("run.py", engine).stderr) == ("no broker\n", "")
    (app / "app.jsa").write_bytes(b"damaged")
    assert (done("run.py", engine).stdout, done("run.py", engine).stderr) == ("no broker\n", "")


@LONG
def test_an_app_that_ends_at_once_is_prepared_too(engine):
    (engine / "App.java").write_text(FAILS)
    assert done("prepare.py", engine).returncode == 0
    assert "Error: no" in done("run.py", engine).stderr


def test_what_does_not_compile_leaves_nothing(engine, tmp_path):
    (engine / "App.java").write_text("class App {")
    made = done("prepare.py", engine)
    assert made.returncode == 1 and "App.java:1: error" in made.stderr
    assert not list((tmp_path / "cache" / "tickproof").glob("java-app-*"))
    assert "expected what `python prepare.py` makes" in done("run.py", engine).stderr
