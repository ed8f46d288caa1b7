"""`tickproof new-engine`: what it writes is judged as it stands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT
from tests.long import LONG
from tickproof.conformance.engines import spec, starters
from tickproof.conformance.errors import RequestError


def judged(folder, toml, *words):
    """Judge an engine of a folder; returns requirement -> verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", "run", str(toml), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = folder.glob("tickproof-out/*/report.json")
    rows = json.loads(report.read_text())["requirements"]
    return {one["id"]: one["verdict"] for one in rows}


#: The program that a starter in a language needs.
NEEDS = {"go": "go", "java": "javac", "node": "node", "rust": "cargo", "python": sys.executable}


def require(language: str) -> None:
    """Skip a test of a starter that cannot run here."""
    if shutil.which(NEEDS[language]) is None:
        pytest.skip(f"no {NEEDS[language]}")


@pytest.mark.parametrize("what", starters.STARTERS, ids="-".join)
def test_a_starter_loads_under_its_new_name(what, tmp_path):
    require(what[1])
    made = spec.load(starters.write("my-own", *what, tmp_path / "below"))
    assert made.path == tmp_path / "below" / "my-own" / "engine.toml"
    assert (made.name, made.version) == ("my-own", "0.1.0")
    assert made.transports == (what[0],)
    assert made.language == what[1]
    assert made.preparation() or what[0] == "log"
    assert what in (("log", "go"), ("log", "rust")) or made.command()  # which prepare is to build


@pytest.mark.parametrize(
    "language", [lang for spoken, lang in starters.STARTERS if spoken == "log"]
)
def test_a_starter_answers_with_its_new_name_and_version(language, tmp_path):
    made = starters.write("my-own", "log", language, tmp_path)
    text = "\n".join(path.read_text("utf-8") for path in made.parent.iterdir()).replace("\\", "")
    assert text.count('"my-own"') == 3  # in engine.toml, hello and topology
    assert text.count('"0.1.0"') == (3 if language == "rust" else 2)  # Cargo.toml, too
    assert '"minimal"' not in text and "1.0.0" not in text


@LONG
@pytest.mark.parametrize("language", ["python", "go", "node", "java", "rust"])
def test_the_starter_over_the_log_passes_tiers_0_and_1(language, tmp_path):
    require(language)
    made = starters.write("mine", "log", language, tmp_path)
    found = judged(tmp_path, made, "--tier", "0", "--tier", "1")
    assert set(found.values()) <= {"pass", "not-claimed"}
    assert found["SL-PASSTHROUGH"] == found["ST-TOTALS"] == found["PR-DRAIN"] == "pass"


@LONG
@pytest.mark.parametrize("language", ["java", "go"])
def test_the_starter_over_kafka_passes_tier_0(language, tmp_path):
    require(language)
    pytest.importorskip("confluent_kafka")
    made = starters.write("mine", "kafka", language, tmp_path)
    assert judged(tmp_path, made, "--tier", "0")["SL-PASSTHROUGH"] == "pass"


@LONG
def test_the_starter_over_kafka_in_node_passes_tiers_0_and_1(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    pytest.importorskip("confluent_kafka")
    made = starters.write("mine", "kafka", "node", tmp_path)
    found = judged(tmp_path, made, "--tier", "0", "--tier", "1")
    assert set(found.values()) == {"pass", "not-claimed"}
    assert found["SL-PASSTHROUGH"] == found["ST-TOTALS"] == found["ST-LONG-RUN"] == "pass"


@pytest.mark.parametrize(("there", "missing"), [([], "node"), (["node"], "npm")])
def test_the_starter_in_node_says_which_program_is_missing(there, missing, tmp_path):
    made = starters.write("mine", "kafka", "node", tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in there:
        (programs / name).symlink_to(sys.executable)
    done = subprocess.run(
        [sys.executable, str(made.parent / "prepare.py")],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"needs Node.js and npm: there is no `{missing}` on PATH" in done.stderr
    assert not (made.parent / "node_modules").exists()


def test_the_starter_in_node_pins_its_packages_by_hash_and_not_by_host(tmp_path):
    folder = starters.write("mine", "kafka", "node", tmp_path).parent
    asked = json.loads((folder / "package.json").read_text())["dependencies"]
    locked = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert locked.pop("")["dependencies"] == asked
    assert {name: locked[f"node_modules/{name}"]["version"] for name in asked} == asked
    assert all(one["integrity"] and "resolved" not in one for one in locked.values())


@pytest.mark.parametrize(
    ("name", "transport", "language", "said"),
    [
        ("mine", "kafka", "rust", "--lang: not yet with --kafka: expected one of python, java, go"),
        ("../mine", "log", "python", "NAME: expected small letters"),
        ("Mine", "log", "python", "NAME: expected small letters"),
        ("there", "log", "python", "there: File exists"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_what_can(name, transport, language, said, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(RequestError, match=said):
        starters.write(name, transport, language, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
