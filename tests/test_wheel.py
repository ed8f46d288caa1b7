"""The wheel: all that the kit needs, under one name, beside whatever a user's project has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).parents[1]
PARTS = ("conformance", "generators", "reference", "fixtures")
#: What tests the kit itself stays in the checkout.
LEFT_OUT = (
    "conformance/selftest", "fixtures/mutants", "fixtures/sound_variants",
    "fixtures/rogues", "fixtures/equivalents",
)  # fmt: skip

for needed in ("hatchling", "build"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed: it builds the wheel", allow_module_level=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build sdist and wheel from a copy, so that a checkout stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__")
    for item in (*PARTS, "tickproof"):
        shutil.copytree(ROOT / item, folder / item, ignore=ignore, symlinks=True)
    for item in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / item, folder / item)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", str(folder)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    (made,) = (folder / "dist").glob("*.whl")
    return made


def files(folder: str) -> set[str]:
    """Return the files of a folder as the wheel names them, without caches and hidden ones."""
    return {
        f"tickproof/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not any(part == "__pycache__" or part[0] == "." for part in path.parts)
    }


def test_it_holds_all_modules_fixtures_and_data_but_what_tests_the_kit(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    assert "tickproof/fixtures/engines/miniature/engine.toml" in files("fixtures")
    left_out = set().union(*map(files, LEFT_OUT))
    assert all(files(folder) for folder in LEFT_OUT)
    for part in PARTS:
        assert files(part) - left_out <= held
    assert not left_out & held


def test_it_takes_one_name(wheel):
    archive = zipfile.ZipFile(wheel)
    top = {entry.split("/")[0] for entry in archive.namelist()}
    assert {entry for entry in top if not entry.endswith(".dist-info")} == {"tickproof"}
    points = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
    text = archive.read(points).decode()
    assert "tickproof = tickproof.conformance.cli.main:main" in text
    assert "= tickproof.conformance.session.pytest_options" in text


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """Install the wheel into a folder."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, wheel],
        check=True,
        timeout=120,
    )
    return folder


@LONG
def test_it_runs_beside_a_project_with_modules_of_the_same_names(site, tmp_path):
    project = tmp_path / "project"
    for name in PARTS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"raise ImportError('the user has a {name}')")
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", "run", "miniature", "--only", "SL-PASSTHROUGH"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{site}"},
    )
    assert done.returncode == 0, done.stderr
    assert "1 pass; exit status 0" in done.stdout


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", "mutant:offset-not-state"], "mutant:offset-not-state"),
        (["run", "variant:unnumbered-at-least-once"], "variant:unnumbered-at-least-once"),
        (["selftest", "--part"], "tickproof selftest"),
        (["mutate", "single"], "tickproof mutate"),
    ],
)
def test_what_needs_a_checkout_says_so(site, tmp_path, words, what):
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(site)},
    )
    assert done.returncode == 2, done.stderr
    said = " ".join(done.stderr.split())
    assert f"{what}: needs a checkout of the repository, it is not in the wheel" in said
    assert not list(tmp_path.rglob("engine.toml"))
