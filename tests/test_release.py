"""What publishes a version, and what it is built into: read, checked, and run as far as it goes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.docs.commands import check
from tickproof import conformance

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
CONTAINER = (ROOT / "Containerfile").read_text("utf-8")


@pytest.fixture(scope="module")
def jobs():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]


def test_each_job_has_only_the_rights_that_it_needs(jobs):
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "publish": {"id-token": "write"},
        "release": {"contents": "write"},
    }
    for job in jobs.values():
        assert not any("${{" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize(
    ("tag", "status"), [(f"v{conformance.__version__}", 0), ("v99.0.0", 1), ("x", 1)]
)
def test_only_the_tag_of_the_version_is_published(jobs, tag, status):
    (step,) = (one for one in jobs["build"]["steps"] if one.get("name") == "The tag is the version")
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=ROOT,
        env={**os.environ, "GITHUB_REF_NAME": tag},
        capture_output=True,
    )
    assert done.returncode == status


def instructions() -> list[tuple[str, str]]:
    """Return (instruction, arguments) of the Containerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", CONTAINER, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]


def test_the_container_is_made_of_what_is_there():
    found = instructions()
    assert found[0][0] == "FROM" and re.search(r":\d+\.\d+-slim-\w+$", found[0][1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (asked,) = re.findall(r"/opt/tickproof\[([\w,]+)\]", CONTAINER)
    assert set(asked.split(",")) <= project["optional-dependencies"].keys()
    for command in re.findall(r"^RUN (tickproof .+)$", CONTAINER, re.MULTILINE):
        check(command)
    users = [what for name, what in found if name == "USER"]
    assert users and users[-1] != "root"
    assert ("ENTRYPOINT", '["tickproof"]') in found


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="no hadolint")
def test_a_linter_finds_nothing_in_the_container():
    done = subprocess.run(["hadolint", ROOT / "Containerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
