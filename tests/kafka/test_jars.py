"""Jars are what the list says, or there are none. A script stands in for Maven."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.long import LONG
from tickproof.conformance.errors import InvalidFile, KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.jars import JarList

ROOT = Path(__file__).parents[2]
FILES = {"one-1.0.jar": b"first", "two-2.0.jar": b"second"}
MAVEN = """\
#!/bin/sh
echo called >>"$CALLS"
for argument do case "$argument" in -DoutputDirectory=*) out="${argument#*=}"; esac; done
printf first >"$out/one-1.0.jar"
printf second >"$out/two-2.0.jar"
printf other >"$out/extra-3.0.jar"
"""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Give an empty cache, and no client but a Maven that brings FILES and one file more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(jars, "importlib", nothing)
    install(tmp_path, MAVEN)
    return tmp_path / "cache" / "tickproof"


def install(tmp_path: Path, script: str) -> None:
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "mvn").write_text(script)
    (tmp_path / "bin" / "mvn").chmod(0o755)


def listed(**changed: bytes) -> JarList:
    contents = FILES | {name.replace("_", "-") + ".0.jar": text for name, text in changed.items()}
    hashes = {name: hashlib.sha256(text).hexdigest() for name, text in contents.items()}
    return JarList(name="sample", coordinates=["org.sample:one:1.0"], sha256=hashes)


def calls(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().splitlines())


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_brought_once_and_exactly_as_listed(cache, tmp_path, capsys):
    folder = jars.bring(listed())
    assert folder.parent == cache
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert jars.bring(listed()) == folder
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("tickproof: bringing the ") and said.endswith(f"once, into {folder}")
    assert calls(tmp_path) == 1
    assert left(cache) == [folder.name]


def test_coordinates_without_their_jar_in_the_list_are_named(cache, tmp_path):
    wanted = listed().model_copy(update={"coordinates": ["org.sample:one:1.0", "org.db:sql:4.2"]})
    with pytest.raises(KafkaUnavailable, match=r"org.db:sql:4.2: expected sql-4.2.jar in its"):
        jars.bring(wanted)
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("damage", ["flipped", "gone", "more"])
def test_damaged_cache_is_mended(cache, tmp_path, damage):
    folder = jars.bring(listed())
    if damage == "flipped":
        (folder / "one-1.0.jar").write_bytes(b"f1rst")
    elif damage == "gone":
        (folder / "two-2.0.jar").unlink()
    else:
        (folder / "evil-1.0.jar").write_bytes(b"")
    assert jars.bring(listed()) == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert calls(tmp_path) == 2


def test_other_content_is_an_error_that_names_the_file(cache):
    with pytest.raises(KafkaUnavailable, match=r"two-2\.0\.jar has sha256 .*; expected"):
        jars.bring(listed(two_2=b"what its makers released"))
    assert left(cache) == []


def test_a_jar_that_does_not_come_is_an_error_that_names_it(cache):
    with pytest.raises(KafkaUnavailable, match=r"has no three-3\.0\.jar; expected sha256"):
        jars.bring(listed(three_3=b""))
    assert left(cache) == []


def test_the_folder_changes_with_the_list():
    assert listed().folder != listed(one_1=b"x").folder
    assert listed().folder.startswith("sample-")


def test_those_who_come_meanwhile_wait_for_one_download(cache, tmp_path):
    install(tmp_path, MAVEN.replace("echo called", "sleep 0.3; echo called"))
    barrier, folders = threading.Barrier(4), []

    def bring() -> None:
        barrier.wait()
        folders.append(jars.bring(listed()))

    threads = [threading.Thread(target=bring) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 4
    assert len(set(folders)) == calls(tmp_path) == 1


def test_a_client_that_fails_is_quoted(cache, tmp_path):
    install(tmp_path, "#!/bin/sh\necho fine; echo '[ERROR] Unknown host repo'; exit 7\n")
    with pytest.raises(KafkaUnavailable) as error:
        jars.bring(listed())
    for words in ("status 7", "Unknown host repo", "a network that reaches it"):
        assert words in str(error.value)
    assert left(cache) == []


def test_no_client_is_an_error_that_says_what_to_install(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailable, match=r"pip install 'tickproof\[kafka\]'.*mvn"):
        jars.bring(listed())


def test_no_cache_is_an_error(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(jars.java, "caches", lambda: (tmp_path / "calls" / "x",))
    (tmp_path / "calls").write_text("")
    with pytest.raises(KafkaUnavailable, match="expected one of these folders"):
        jars.bring(listed())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"\ncoordinates = []', "coordinates: expected a list that is not empty"),
        ('name = "../x"\ncoordinates = ["a:b:1"]', "name: expected lower-case letters"),
        ('name = "x"\ncoordinates = ["a:b"]', "expected group:artifact:version"),
        ('name = "x"\ncoordinates = ["a:b:<1"]', "expected group:artifact:version"),
        ('name = "x"\ncoordinates = ["a:b:1"]\n[sha256]\n"../a.jar" = "00"', "the name of a jar"),
        ('name = "x"\ncoordinates = ["a:b:1"]\n[sha256]\n"a.jar" = "00"', "64 digits"),
    ],
)
def test_bad_lists_are_told(tmp_path, text, words):
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises(InvalidFile, match=words):
        jars.load(path)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tickproof.conformance.kafka.jars", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_an_engine_prepares_by_a_command(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = listed()
    folder = tmp_path / "cache" / "tickproof" / made.folder
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    hashes = "".join(f'"{name}" = "{value}"\n' for name, value in made.sha256.items())
    path = tmp_path / "list.toml"
    path.write_text(f'name = "sample"\ncoordinates = ["org.sample:one:1.0"]\n[sha256]\n{hashes}')
    for _ in range(2):
        done = run(path, tmp_path / "jars")
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(folder), "")
        assert (tmp_path / "jars").readlink() == folder
    path.write_text("name = 1")
    done = run(path)
    assert done.returncode == 2
    assert f"{path}: name: expected text; got 1" in done.stderr


def test_hashes_of_what_comes_are_filled_in(cache, tmp_path):
    path = tmp_path / "list.toml"
    path.write_text('name = "sample"\ncoordinates = ["org.sample:one:1.0"]\n')
    with pytest.raises(KafkaUnavailable, match="no table sha256"):
        jars.bring(jars.load(path))
    jars.fill(path)
    assert jars.load(path).sha256.keys() == FILES.keys() | {"extra-3.0.jar"}
    jars.bring(jars.load(path))


@pytest.mark.parametrize("table", ["", "\n[sha256]\n", "\nsha256 = {}\n"])
def test_filling_keeps_comments_and_leaves_out_what_pyspark_has(cache, tmp_path, table):
    jar = tmp_path / "pyspark" / "jars" / "two-1.7.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    origin = SimpleNamespace(origin=str(tmp_path / "pyspark" / "__init__.py"))
    jars.importlib.util.find_spec = lambda name: origin
    path = tmp_path / "list.toml"
    above = '# for the tests\nname = "sample"  # short\ncoordinates = ["org.sample:one:1.0"]'
    path.write_text(f"{above}\n{table}")
    jars.fill(path, beside_pyspark=True)
    assert path.read_text().startswith(f"{above}\n\n[sha256]\n")
    assert jars.load(path).sha256.keys() == {"one-1.0.jar", "extra-3.0.jar"}


def test_the_brokers_list_is_whole():
    found = jars.load(jars.BROKER)
    assert len(found.sha256) == 46
    assert "kafka_2.13-4.1.0.jar" in found.sha256


@LONG
@pytest.mark.parametrize("client", ["ivy", "maven"])
def test_the_brokers_jars_come_for_real(tmp_path, monkeypatch, client, kafka):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if client == "ivy" and importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    if client == "maven":
        if shutil.which("mvn") is None:
            pytest.skip("mvn is not installed")
        nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
        monkeypatch.setattr(jars, "importlib", nothing)
    wanted = jars.load(jars.BROKER)
    assert {path.name for path in jars.bring(wanted).iterdir()} == wanted.sha256.keys()
