"""The doors to own jobs: the folder that `new-job` writes, and what a test may claim."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tickproof.conformance.cli import options
from tickproof.conformance.engines import starters
from tickproof.conformance.errors import InvalidFile, RequestError
from tickproof.conformance.jobs import declaration
from tickproof.conformance.jobs.pytest_plugin import Jobs


@pytest.mark.parametrize("kind", starters.JOBS)
def test_a_new_job_is_declared_under_its_name(tmp_path: Path, kind: str) -> None:
    folder = starters.write_job("orders", tmp_path / "below", kind)
    assert folder == tmp_path / "below" / "orders"
    job = declaration.load(folder)
    assert (job.name, job.path) == ("orders", folder / "job.toml")


@pytest.mark.parametrize(
    ("name", "said"),
    [("../orders", "NAME: expected small letters"), ("there", "there: File exists")],
)
def test_a_name_that_cannot_be_is_refused(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(RequestError, match=said):
        starters.write_job(name, tmp_path)


def test_a_test_claims_in_place_of_the_declaration(tmp_path: Path) -> None:
    starters.write_job("orders", tmp_path)
    declared = Jobs(tmp_path, tmp_path, 1).job("orders")
    assert declared.job.claims.survives == ["worker", "engine", "broker"]
    claimed = declared.survives("worker").job.claims
    assert claimed.survives == ["worker"]
    assert claimed.oracle == declared.job.claims.oracle


def test_a_claim_that_there_is_not_is_an_error_with_its_key(tmp_path: Path) -> None:
    starters.write_job("orders", tmp_path)
    with pytest.raises(InvalidFile, match=r"\[claims\] survives\[0\]: .*got 'meteors'"):
        Jobs(tmp_path, tmp_path, 1).job("orders").survives("meteors")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "is_job"),
    [
        ("job.toml", None, True),
        ("weaker.toml", "[job]\n", True),
        ("weaker.toml", "[engine]\n", False),
        ("weaker.toml", "no TOML", False),
        ("weaker.toml", None, False),
        ("miniature", None, False),
    ],
)
def test_a_file_with_a_job_in_it_is_a_job(
    tmp_path: Path, name: str, text: str | None, is_job: bool
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert options.names_job(tmp_path / name) is is_job


def test_two_claims_in_one_folder_have_names_of_their_own(tmp_path: Path) -> None:
    folder = starters.write_job("orders", tmp_path)
    shutil.copy(folder / "job.toml", folder / "orders-weaker.toml")
    assert declaration.load(folder / "orders-weaker.toml").name == "orders-weaker"


def test_a_job_that_is_not_there_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="missing"):
        Jobs(tmp_path, tmp_path, 1).job("missing/job.toml")
