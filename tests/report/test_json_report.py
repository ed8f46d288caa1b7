from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.report import json_report
from tickproof.conformance.verdicts import Outcome, Verdict


def test_one_of_each_verdict_comes_back_from_the_file(one_of_each, tmp_path, ids):
    path = one_of_each.write(tmp_path)

    assert json_report.Report.read(path) == one_of_each
    found = {r["id"]: r["verdict"] for r in json.loads(path.read_text())["requirements"]}
    assert found == {id_: verdict.value for verdict, id_ in ids.items()}
    assert not list(tmp_path.glob("*.part"))


def test_the_published_schema_is_in_step():
    assert json_report.SCHEMA_PATH.read_text() == json_report.schema_text(), (
        "write it anew: python -m tickproof.conformance.report.json_report"
    )


def test_a_report_validates_against_the_published_schema(one_of_each):
    schema = json.loads(json_report.SCHEMA_PATH.read_text())
    document = json.loads(one_of_each.model_dump_json())
    jsonschema.Draft202012Validator.check_schema(schema)

    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError, match="'green' is not one of"):
        jsonschema.validate(document | {"verdict": "green"}, schema)
    with pytest.raises(jsonschema.ValidationError, match="'seed' is a required property"):
        jsonschema.validate({k: v for k, v in document.items() if k != "seed"}, schema)


def test_a_selected_requirement_without_outcome_is_a_kit_error(make_report, outcome):
    report = make_report(outcome(Verdict.PASS), selected=("PR-HELLO", "PR-DEPLOY"))

    by_id = {result.id: result for result in report.requirements}
    assert by_id["PR-DEPLOY"].verdict is Verdict.KIT_ERROR
    assert by_id["PR-DEPLOY"].reason == "NO_OUTCOME"
    assert (report.verdict, report.exit_status) == (Verdict.KIT_ERROR, 4)


def test_two_outcomes_for_one_requirement_are_a_kit_error(make_report):
    report = make_report(
        Outcome("PR-HELLO", Verdict.PASS), Outcome("PR-HELLO", Verdict.FAIL, reason="X")
    )

    (result,) = report.requirements
    assert (result.verdict, result.reason) == (Verdict.KIT_ERROR, "SEVERAL_OUTCOMES")
    assert result.actual == "2: pass, fail"


def test_an_outcome_that_nobody_selected_is_a_kit_error(make_report, outcome):
    report = make_report(
        outcome(Verdict.PASS), Outcome("PR-NONSENSE", Verdict.PASS), selected=("PR-HELLO",)
    )

    assert {r.id: r.reason for r in report.requirements}["PR-NONSENSE"] == "NOT_SELECTED"
    assert report.exit_status == 4


def test_no_result_at_all_is_no_empty_green(make_report):
    assert make_report().verdict is Verdict.KIT_ERROR


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": "pass"}, "verdict: expected kit-error, got pass"),
        ({"exit_status": 0}, "exit_status: expected 4, got 0"),
        ({"counts": {"pass": 8}}, "counts: not the counts"),
        ({"format": 2}, "format"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(one_of_each, tmp_path, change, said):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(json.loads(one_of_each.model_dump_json()) | change))

    with pytest.raises(HistoryError, match=said):
        json_report.Report.read(path)


def test_a_report_from_before_kinds_is_read(one_of_each, tmp_path):
    path = one_of_each.write(tmp_path)
    old = {key: value for key, value in json.loads(path.read_text()).items() if key != "kind"}
    path.write_text(json.dumps(old))

    assert json_report.Report.read(path) == one_of_each


def test_another_version_or_kind_is_refused_by_name(one_of_each, tmp_path):
    path = one_of_each.write(tmp_path)
    whole = json.loads(path.read_text())
    for key, value, said in (("format", 7, "expected 1, got 7"), ("kind", "survey", "'session'")):
        path.write_text(json.dumps(whole | {key: value}))
        with pytest.raises(HistoryError, match=f"{key}: .*{said}"):
            json_report.Report.read(path)


def test_a_result_listed_twice_is_refused(one_of_each, tmp_path):
    document = json.loads(one_of_each.model_dump_json())
    document["requirements"].append(document["requirements"][0])
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))

    with pytest.raises(HistoryError, match="more than one result for PR-HELLO"):
        json_report.Report.read(path)


def test_hostile_text_and_numpy_evidence_can_be_written(make_report, tmp_path, outcome, hostile):
    evidence = {
        "count": np.uint64(2**64 - 1),
        "offsets": np.array([1, 2]),
        "symbol": np.bytes_(b"AAPL    "),
        "nan": float("nan"),
        "said": hostile,
        "path": Path("x"),
        hostile: {"deep": (1, None, True)},
    }
    report = make_report(outcome(Verdict.FAIL, actual=hostile, evidence=evidence))

    (back,) = json_report.Report.read(report.write(tmp_path)).requirements
    assert back.evidence["count"] == 2**64 - 1
    assert back.evidence["offsets"] == [1, 2]
    assert back.evidence["symbol"] == "AAPL"
    assert back.evidence["nan"] == "nan"
    assert back.evidence["path"] == "x"
    assert [1, None, True] in [v["deep"] for v in back.evidence.values() if isinstance(v, dict)]
    assert "\\udc80" in back.actual


def test_long_text_is_cut_and_says_so(make_report, outcome):
    report = make_report(outcome(Verdict.FAIL, actual="x" * 10_000))

    assert report.requirements[0].actual.endswith("... (6000 characters cut)")


def test_run_folders_are_relative_to_the_report(make_report, tmp_path, outcome):
    report = make_report(outcome(Verdict.FAIL, run=str(tmp_path / "runs" / "a")))

    assert report.requirements[0].run == "runs/a"


def test_nothing_names_the_machine_or_its_user(one_of_each):
    text = one_of_each.model_dump_json()

    assert one_of_each.engine.toml == "engine.toml"
    assert platform.node() not in text
    assert os.path.expanduser("~") not in text  # noqa: PTH111 (text, not a path to open)
    assert one_of_each.host.cpus >= 1
    assert one_of_each.host.memory_bytes > 2**20


@pytest.mark.parametrize(("status", "verdict"), [(143, Verdict.UNKNOWN), (4, Verdict.KIT_ERROR)])
def test_a_report_of_an_early_end_has_the_status_of_its_command(
    make_report, outcome, tmp_path, status, verdict
):
    whole = make_report(outcome(Verdict.PASS), outcome(Verdict.UNKNOWN, reason="INTERRUPTED"))
    cut = json_report.Interrupted(by="ended", exit_status=status, judged=1, of=2)
    report = json_report.of_session(whole, "s", cut)
    assert (report.exit_status, report.verdict) == (status, verdict)
    report.write(tmp_path)
    assert json_report.Report.read(tmp_path / json_report.FILE_NAME) == report
