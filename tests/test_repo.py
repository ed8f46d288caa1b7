"""The rules of the house that a machine can see."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tickproof import conformance
from tickproof.conformance.cli.main import EXTRAS

ROOT = Path(__file__).parents[1]


def test_command_line_needs_no_extras():
    # Nor what takes longer to import than `--help` may.
    absent = (
        *("pyspark", "pandas", "confluent_kafka", "sqlalchemy"),
        *("hypothesis", "jsonschema", "pyarrow", "numpy", "pydantic", "jinja2", "pytest"),
    )
    code = (
        "import sys\n"
        f"for name in {absent}:\n"
        "    sys.modules[name] = None\n"
        "import tickproof.conformance.cli.main\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


def test_a_missing_extra_is_named(tmp_path):
    csv = tmp_path / "keyed.csv"
    csv.write_text("key,value\n1,2\n", "utf-8")
    code = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "from tickproof.conformance.cli.main import main\n"
        f"main(['generate', 'numbers', '--app', 'count', '--from-csv', {str(csv)!r}, '--out', 'x'])"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, timeout=60, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "Error: this needs the package pyarrow, which is not installed: "
        "pip install 'tickproof[files]'\n"
    )
    assert list(tmp_path.iterdir()) == [csv]


def test_every_extra_that_is_named_brings_its_package():
    extras = project()["optional-dependencies"]
    for package, extra in EXTRAS.items():
        names = [re.split(r"[\[<>=]", one)[0].replace("-", "_") for one in extras[extra]]
        assert package in names


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_pre_commit_and_ci_run_the_same_checks():
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini", "utf-8")
    checks = tox["testenv:lint"]["commands"].split("\n")[1:]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.findall(r"entry: (.+)", hooks) == checks
    assert re.findall(r"language: (.+)", hooks) == ["system"] * len(checks)
    assert re.search(r'tox" run .*-e lint( &)?\n', (ROOT / ".ci" / "run").read_text("utf-8"))


def test_version_is_said_once():
    assert project()["version"] == conformance.__version__


def statements(path: Path) -> int:
    """Return how many statements a module has, its docstrings aside."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    return sum(isinstance(node, ast.stmt) for node in nodes) - sum(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in nodes
    )


@pytest.mark.parametrize(
    ("folders", "most"),
    [
        (("api", "compiler", "connectors"), 1_290),
        (("api", "compiler", "connectors", ""), 1_530),  # all but the apps
    ],
)
def test_reference_stays_minimal(folders, most):
    paths = [path for name in folders for path in (ROOT / "reference" / name).glob("*.py")]
    assert len(paths) > 3 * len(folders) and sum(map(statements, paths)) < most
