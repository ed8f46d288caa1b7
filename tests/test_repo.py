"""The rules of the house that a machine can see."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import conformance

ROOT = Path(__file__).parents[1]
PACKAGES = ("conformance", "generators", "fixtures", "reference", "tests")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MOST_LINES = 400
#: Module -> how long it may be: one table of data, read as a whole.
LONGER = {"tests/suites/cases.py": 500}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> set[str]:
    """Return every module that a file imports, dotted."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}: relative import"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def offenders(under: str, *forbidden: str) -> list[tuple[str, str]]:
    paths = [path for path in MODULES if name(path).startswith(under)]
    assert paths, f"no modules under {under}"
    return [(name(p), m) for p in paths for m in sorted(imports(p)) if within(m, *forbidden)]


def test_modules_are_short():
    lengths = {name(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    long = {n: lines for n, lines in lengths.items() if lines > LONGER.get(n, MOST_LINES)}
    assert long == {}


def test_functions_are_short():
    long = [
        (name(path), node.name)
        for path in MODULES
        if not name(path).startswith("tests")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= 60
    ]
    assert long == []


def test_checkers_know_no_sockets_and_no_processes():
    assert offenders(
        "conformance/checkers/", "socket", "subprocess", "multiprocessing", "threading",
        "conformance.engines", "conformance.protocol", "conformance.history", "conformance.suites",
        "conformance.runner",
    ) == []  # fmt: skip


def test_dependencies_point_one_way():
    upper = ("conformance.suites", "conformance.session", "conformance.runner", "conformance.cli",
             "conformance.reports", "conformance.judging")  # fmt: skip
    for lower in ("history", "protocol", "engines", "faults", "requirements"):
        assert offenders(f"conformance/{lower}/", *upper) == []


def test_engines_know_nothing_of_the_kit():
    assert offenders("fixtures/engines/", "conformance", "generators", "tests") == []


def test_generators_know_nothing_of_the_kit():
    assert offenders("generators/", "conformance", "fixtures", "tests") == []


def test_kit_knows_nothing_of_spark_nor_of_the_reference_engine():
    # Only `check --spark` uses Spark, as a machine to judge on; and it finds the same Java.
    found = offenders("conformance/", "pyspark", "py4j", "reference", "tests", "fixtures")
    assert [
        (path, module) for path, module in found
        if not path.startswith("conformance/at_scale/")
        or not (within(module, "pyspark", "py4j") or module in ("reference", "reference.java"))
    ] == []  # fmt: skip


def test_only_the_search_draws_with_hypothesis():
    found = offenders("conformance/", "hypothesis")
    assert found
    assert [one for one in found if not one[0].startswith("conformance/exploring/")] == []


def test_command_line_needs_no_extras():
    # Nor hypothesis: its import takes longer than `--help` may.
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pandas', 'hypothesis', 'jsonschema'):\n"
        "    sys.modules[name] = None\n"
        "import conformance.cli\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_version_is_said_once():
    assert project()["version"] == conformance.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that a checkout stays as it is."""
    for needed in ("hatchling", "build"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: it builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    for item in ("conformance", "generators", "reference", "fixtures"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / item, folder / item, ignore=ignore)
    for item in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / item, folder / item)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(folder)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (made,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(made)


def files(folder: str) -> list[Path]:
    """Return the files of a folder, without caches and hidden ones."""
    return [
        path for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not any(part == "__pycache__" or part[0] == "." for part in path.parts)
    ]  # fmt: skip


def test_wheel_holds_all_fixtures_and_data(wheel):
    held = set(wheel.namelist())
    fixtures = {f"conformance/_{name(path)}" for path in files("fixtures")}
    assert "conformance/_fixtures/engines/miniature/engine.toml" in fixtures
    assert fixtures <= held
    packages = ("conformance", "generators", "reference")
    assert {name(path) for package in packages for path in files(package)} <= held


def test_wheel_installs_no_other_top_level_name(wheel):
    top = {entry.split("/")[0] for entry in wheel.namelist()}
    assert {entry for entry in top if not entry.endswith(".dist-info")} <= {
        "conformance", "generators", "reference",
    }  # fmt: skip
    points = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    text = wheel.read(points).decode()
    assert "tickproof = conformance.cli:main" in text
    assert "conformance.suites.plugin = conformance.suites.plugin" in text


def test_reference_stays_minimal():
    """Fewer than 1,200 lines of code: comments, docstrings and blank lines are not counted."""
    lines = 0
    for path in sorted((ROOT / "reference").rglob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        said: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    said |= set(range(first.lineno, first.end_lineno + 1))
        lines += sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in said
            for number, line in enumerate(text.splitlines(), 1)
        )
    assert lines < 1_200
