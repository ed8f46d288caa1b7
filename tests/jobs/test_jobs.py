"""The kit's own jobs on a real broker: a sound one passes, a twin fails what names its mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.twins import copy, judged, twins
from tests.kafka.presence import expect_broker
from tests.long import LONG
from tests.machine import no_program
from tickproof.conformance.engines import starters
from tickproof.conformance.engines.isolation import Level, sandbox_obstacle
from tickproof.conformance.errors import RequestError
from tickproof.conformance.jobs import pytest_plugin, session
from tickproof.conformance.jobs.pytest_plugin import Jobs
from tickproof.conformance.report.json_report import Report
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

OTHERS = (
    *("join-spark", "join-streams", "windows-flink", "windows-sql", "windows-streams"),
    *("orders-delta", "orders-files", "orders-http", "orders-iceberg"),
    *("orders-node", "orders-rust", "orders-topic"),
    *("totals-poison", "totals-quix", "totals-stop", "totals-upgrade"),
)
LIBRARIES = {"join-spark": "pyspark", "orders-delta": "deltalake", "orders-iceberg": "pyiceberg"}
BUILT_BY = {
    **dict.fromkeys(("join-streams", "windows-flink", "windows-streams"), "javac"),
    **{"orders-node": "npm", "orders-rust": "cargo"},
}


@pytest.fixture(autouse=True)
def _broker() -> None:
    expect_broker()


def said(outcomes: dict[str, Outcome]) -> str:
    return "\n".join(f"{one.requirement} {one.verdict} {one.actual}" for one in outcomes.values())


@pytest.mark.parametrize("kind", ["python", pytest.param("spark", marks=LONG)])
def test_a_new_job_passes_by_its_own_test(tmp_path: Path, kind: str) -> None:
    if kind == "spark":
        pytest.importorskip("pyspark")
    folder = starters.write_job("orders", tmp_path, kind)
    plugin = ("-p", pytest_plugin.__name__)
    command = [sys.executable, "-m", "pytest", *plugin, str(folder / "test_job.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = Report.read(tmp_path / "tickproof-out" / "pytest" / "orders" / Report.FILE_NAME)
    found = {one.id: one for one in report.requirements}
    assert {one.verdict for one in found.values()} == {Verdict.PASS, Verdict.NOT_CLAIMED}
    if kind == "python":
        assert found["JB-COMMIT"].evidence["timeouts"] == {"session": "6 s, asked for 45 s"}


FIXED = {
    'argv = ["{python}", "app.py"]': (
        'argv = ["sh", "-c", "echo 127.0.0.1 kafka >> /etc/hosts && exec {python} app.py"]\n'
        "listen = 9092"
    ),
    'BROKERS = "{bootstrap}"': 'BROKERS = "kafka:9092"',
}


def test_a_job_that_cannot_be_told_where_its_broker_is(tmp_path: Path) -> None:
    if why := sandbox_obstacle():
        pytest.skip(f"no sandbox here: {why}")
    hosts = Path("/etc/hosts").read_bytes()
    found = judged(copy("totals-kafka", tmp_path, replaced=FIXED), tmp_path, only=["JB-CALM"])
    assert found["JB-CALM"].verdict is Verdict.PASS, said(found)
    assert Path("/etc/hosts").read_bytes() == hosts


def test_a_port_of_its_own_needs_a_sandbox(tmp_path: Path) -> None:
    job = copy("totals-kafka", tmp_path, replaced=FIXED)
    settings = session.Settings(tmp_path, 1, level=Level.NONE)
    with pytest.raises(RequestError, match=r"\[job\] listen: expected isolation sandbox"):
        session.Session(job, settings, tmp_path)


def test_output_that_was_not_delivered_is_told_by_how_its_record_was_read(tmp_path: Path) -> None:
    job = copy("orders-topic", tmp_path, twin="unheard", oracle=False)
    found = judged(job, tmp_path, only=["JB-ERROR"])
    failed = found["JB-ERROR"]
    assert failed.verdict is Verdict.FAIL, said(found)
    assert "was answered UNKNOWN_SERVER_ERROR" in failed.stimulus
    story = " ".join(failed.story["brief"])
    assert re.search(r"\[inputs\.orders\] partition \d, offset \d+: read at", story), story


@LONG
def test_a_batch_that_is_added_again_after_a_restart_counts_twice(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    found = judged(copy("totals-spark", tmp_path, twin="append"), tmp_path)
    assert found["JB-TWICE"].verdict is Verdict.FAIL, said(found)


@LONG
def test_offsets_committed_before_the_write_lose_without_an_oracle_too(tmp_path: Path) -> None:
    job = copy("totals-sql", tmp_path, twin="early", oracle=False)
    with pytest.raises(pytest.fail.Exception) as failed:
        Jobs(tmp_path, tmp_path / "out", 1).job(job.path).exactly_once()
    report = Report.read(tmp_path / "out" / job.name / Report.FILE_NAME)
    (lost,) = [one for one in report.requirements if one.id == "JB-LOST"]
    assert lost.verdict is Verdict.FAIL, failed.value.msg
    assert "fewer than the" in " ".join(failed.value.msg.split())


@LONG
def test_at_least_once_is_judged_as_that(tmp_path: Path) -> None:
    """Increments that come before their offsets are right for a job that claims no more."""
    claims = 'state = "exactly-once"\ndelivery = "exactly-once"'
    weaker = claims.replace("exactly", "at-least")
    job = copy("totals-sql", tmp_path, twin="late", replaced={claims: weaker})
    found = judged(job, tmp_path)
    assert found["JB-LOST"].verdict is Verdict.PASS, said(found)
    assert found["JB-TWICE"].verdict is Verdict.NOT_CLAIMED, said(found)
    assert Verdict.FAIL not in {one.verdict for one in found.values()}, said(found)


@LONG
def test_two_workers_that_restore_to_the_end_pass(tmp_path: Path) -> None:
    found = judged(copy("totals-kafka", tmp_path), tmp_path)
    verdicts = {one.verdict for one in found.values()}
    assert verdicts == {Verdict.PASS, Verdict.NOT_CLAIMED}, said(found)


@LONG
def test_state_that_is_not_restored_gives_other_values(tmp_path: Path) -> None:
    # The second of two workers takes partitions over without any fault.
    job = copy("totals-kafka", tmp_path, twin="forgets", replaced={"workers = 2\n": ""})
    found = judged(job, tmp_path)
    assert found["JB-VALUES"].verdict is Verdict.FAIL, said(found)


@LONG
def test_state_that_is_restored_to_the_last_stable_offset_lacks_what_follows(
    tmp_path: Path,
) -> None:
    found = judged(copy("totals-kafka", tmp_path, twin="stable"), tmp_path)
    assert found["JB-PAUSE"].verdict is Verdict.FAIL, said(found)


@LONG
def test_a_name_that_is_in_the_code_gives_each_run_its_own_broker(tmp_path: Path) -> None:
    """Producers with one transactional id fence each other, also those of other runs."""
    alone = {"workers = 2\n": "", "workers = 3\n": ""}
    job = copy("totals-kafka", tmp_path, replaced=alone)
    app = job.folder / "app.py"
    fixed = app.read_text().replace("f\"{GROUP}-{os.environ['INSTANCE']}\"", '"totals"')
    assert '"transactional.id": "totals"' in fixed
    app.write_text(fixed)
    told: list[dict[str, str]] = []
    found = judged(job, tmp_path, on_event=told.append)
    assert {one.verdict for one in found.values()} == {Verdict.PASS, Verdict.NOT_CLAIMED}, said(
        found
    )
    notes = [one["said"] for one in told if one["event"] == "note"]
    assert any(text.endswith("names in it: transactional id totals") for text in notes)
    assert found["JB-CALM"].evidence["calm"]["names"] == ["transactional id totals"]


@LONG
def test_output_that_one_broker_alone_has_is_lost_with_it(tmp_path: Path) -> None:
    found = judged(copy("totals-kafka", tmp_path, twin="lone"), tmp_path, only=["JB-LEADER"])
    assert found["JB-LEADER"].verdict is Verdict.FAIL, said(found)
    assert "that it had acknowledged alone" in found["JB-LEADER"].stimulus


def test_a_version_before_that_cannot_go_on_is_named_with_what_it_says(tmp_path: Path) -> None:
    found = judged(copy("totals-upgrade", tmp_path, twin="narrow"), tmp_path, only=["JB-UPGRADE"])
    failed = found["JB-UPGRADE"]
    assert failed.verdict is Verdict.FAIL, said(found)
    expected = "the version before ends by itself, 3 times, before it does anything: "
    assert failed.actual.startswith(expected), failed.actual
    assert failed.actual.endswith("table totals has 4 columns but 3 values were supplied")


@pytest.mark.parametrize(
    ("name", "twin", "changed"),
    [
        ("orders-http", "offset", "all input comes twice"),
        ("orders-http", "four", "with 6 partitions of each input"),
        ("totals-kafka", "two", "with 3 workers"),
    ],
)
def test_what_may_make_no_difference_makes_one_to_a_twin(
    tmp_path: Path, name: str, twin: str, changed: str
) -> None:
    requirement = twins(name)[twin]["requirement"]
    job = copy(name, tmp_path, twin=twin, oracle=False)
    found = judged(job, tmp_path, only=[requirement])
    assert found["JB-CALM"].verdict is Verdict.PASS, said(found)
    assert found[requirement].verdict is Verdict.FAIL, said(found)
    assert changed in found[requirement].stimulus
    assert found["JB-VALUES"].reason is not Reason.WRONG_TOTAL  # no fault has to do with it


@LONG
@pytest.mark.parametrize(
    ("name", "twin"), [(name, twin) for name in OTHERS for twin in ("", *twins(name))]
)
def test_a_job_and_its_twins(tmp_path: Path, name: str, twin: str) -> None:
    if library := LIBRARIES.get(name):
        pytest.importorskip(library)
    if name in BUILT_BY and (missing := no_program(BUILT_BY[name])):
        pytest.skip(missing)
    found = judged(copy(name, tmp_path, twin=twin), tmp_path)
    if twin:
        assert found[twins(name)[twin]["requirement"]].verdict is Verdict.FAIL, said(found)
    else:
        assert {one.verdict for one in found.values()} == {Verdict.PASS, Verdict.NOT_CLAIMED}, said(
            found
        )


#: Placeholders and variables, of which a job may use either.
LOGIN = 'CA = "{ca}", PASSWORD = "{sasl.password}",'
SECURED = """
        "security.protocol": os.environ["TICKPROOF_SECURITY"],
        "ssl.ca.location": os.environ["CA"],
        "sasl.mechanism": os.environ["TICKPROOF_SASL_MECHANISM"],
        "sasl.username": os.environ["TICKPROOF_SASL_USERNAME"],
        "sasl.password": os.environ["PASSWORD"],
"""


@LONG
def test_a_job_that_logs_in_over_tls_passes(tmp_path: Path) -> None:
    security = {"[inputs": 'security = "sasl_ssl"\n[inputs', "env = {": f"env = {{ {LOGIN}"}
    job = copy("totals-sql", tmp_path, replaced=security)
    app = job.folder / "app.py"
    text, settings = app.read_text("utf-8"), '"enable.auto.commit": False,'
    assert text.count(settings) == 1
    told = "import sys\nprint(dict(os.environ), file=sys.stderr)\n"
    text = text.replace(settings, f"{settings}{SECURED}")
    app.write_text(text.replace("consumer = Consumer(", f"{told}consumer = Consumer("), "utf-8")
    asked = ("JB-COMMIT", "JB-BROKER")
    found = judged(job, tmp_path, only=asked)
    assert [found[one].verdict for one in asked] == [Verdict.PASS] * 2, said(found)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"'PASSWORD': '***'" in one for one in written)
    assert not any(re.search(rb"PASSWORD\W+[0-9a-f]{32}", one) for one in written)
