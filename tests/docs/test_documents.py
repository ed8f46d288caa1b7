"""What the documents show is what the vectors, the registry and the code say."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from docs.tools import pages
from tickproof.conformance import verdicts
from tickproof.conformance.engines import spec
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Reason

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
VECTORS = ROOT / "fixtures" / "vectors"
PAGES = sorted([*DOCS.rglob("*.md"), VECTORS / "README.md"])
PROTOCOL = (DOCS / "protocol.md").read_text("utf-8")


def load(name, key):
    return json.loads((VECTORS / name).read_text("utf-8"))[key]


def blocks(text):
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def table(text, header):
    """Return the cells of the table whose header row starts with ``header``."""
    lines = text[text.index(f"| {header} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_worked_session_is_the_exchange_of_the_vectors():
    shown = next(body for _, body in blocks(PROTOCOL) if "# HELLO: version 1" in body)
    lines = [line for line in shown.splitlines() if not line.startswith("#")]
    exchange = next(
        one for one in load("exchanges.json", "exchanges") if one["name"] == "double-without-faults"
    )
    expected = []
    for step in exchange["steps"]:
        expected += [f"> {step['send']}", f"< {step['reply']}"]
    assert lines == expected


def test_the_control_lines_of_the_session_are_answered_once_each():
    shown = next(body for _, body in blocks(PROTOCOL) if '"op": "hello"' in body)
    requests, answers = [], []
    for line in shown.splitlines():
        (requests if line[0] == ">" else answers).append(json.loads(line[2:]))
    assert {one["op"] for one in requests} > {"hello", "deploy", "topology", "drain", "stop"}
    assert sorted(one["id"] for one in requests) == sorted(one["id"] for one in answers)


def test_the_op_table_has_the_codes_of_the_vectors():
    codes = {(v["op"], v["direction"]): v["code"] for v in load("frames.json", "vectors")}
    rows = [row for row in table(PROTOCOL, "op | name") if row[0]]
    assert len(rows) == 9
    for code, name, _, reply, _ in rows:
        assert codes[name, "to-kit"] == code
        assert codes[name, "from-kit"].lower() == reply.lower()


def test_the_error_table_has_eight_codes():
    assert [row[0] for row in table(PROTOCOL, "code")] == [str(code) for code in range(1, 9)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_requirement_ids_in_the_text_exist(page):
    families = "|".join(registry.FAMILIES)
    ids = set(re.findall(rf"\b(?:{families})-[A-Z][A-Z0-9-]*[A-Z0-9]\b", page.read_text("utf-8")))
    assert ids <= registry.load().keys(), ids - registry.load().keys()


@pytest.mark.parametrize("page", ["protocol.md", "tutorial.md"])
def test_toml_examples_are_toml(page):
    examples = [body for kind, body in blocks((DOCS / page).read_text("utf-8")) if kind == "toml"]
    assert examples
    for body in examples:
        assert tomllib.loads(body)


def test_the_steps_for_authors_name_all_of_tier_0():
    text = (DOCS / "tutorial.md").read_text("utf-8")
    tier_0 = {one.id for one in registry.load().values() if one.tier == 0}
    assert tier_0 <= set(re.findall(r"[A-Z]{2}(?:-[A-Z]+)+", text))


def test_the_verdict_page_lists_all_verdicts_and_exit_statuses():
    text = (DOCS / "verdicts.md").read_text("utf-8")
    assert [row[0] for row in table(text, "verdict")] == [v.value for v in verdicts.Verdict]
    order = re.search(r"From best to worst: ([^.]*)\.", text)
    assert order[1].split(", ") == [verdict.value for verdict in verdicts.SEVERITY]
    statuses = [row[0] for row in table(text, "status")]
    assert statuses == [*"012345", "129", "130", "137", "141", "143"]


def test_control_vectors_are_what_they_say():
    for request in load("control.json", "requests"):
        assert {"id", "op"} <= json.loads(request["line"]).keys()
    for answer in load("control.json", "answers"):
        line = json.loads(answer["line"])
        assert (line["id"], line["ok"]) == (answer["to"], answer["ok"])
        assert line["ok"] or {"error", "definite"} <= line.keys()
    for bad in load("control.json", "malformed"):
        assert malformed_kind(bad) == bad["kind"], bad["name"]


def malformed_kind(vector):
    """Tell what is wrong with a line, slowly and by the text of the protocol."""
    if "repeat" in vector:
        parts = vector["repeat"]
        line = (parts["before"] + parts["text"] * parts["times"] + parts["after"]).encode()
    elif "line_hex" in vector:
        line = bytes.fromhex(vector["line_hex"])
    else:
        line = vector["line"].encode()
    if len(line) > 1024 * 1024:
        return "too-long"
    try:
        answer = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return "not-utf8"
    except json.JSONDecodeError:
        return "not-json"
    if not isinstance(answer, dict):
        return "not-an-object"
    if type(answer.get("id")) is not int or not members_fit(answer, vector.get("op")):
        return "incomplete"
    answered = [json.loads(before)["id"] for before in vector.get("after", [])]
    return "no-such-request" if answer["id"] != 1 or 1 in answered else "in order"


def members_fit(answer, op):
    if answer.get("ok") is False:
        return isinstance(answer.get("error"), str) and isinstance(answer.get("definite"), bool)
    if answer.get("ok") is not True:
        return False
    if op == "hello":
        return answer.keys() >= {"name", "version", "protocol"} and answer["protocol"] == 1
    if op == "topology":
        return isinstance(answer.get("processes"), list) and all(
            type(one["pid"]) is int and one["role"] in ("engine", "coordinator", "worker")
            for one in answer["processes"]
        )
    return True


@pytest.mark.parametrize("page", ["protocol.md", "tutorial.md"])
def test_the_engine_toml_of_a_page_loads(page, tmp_path):
    text = (DOCS / page).read_text("utf-8")
    example = next(body for kind, body in blocks(text) if kind == "toml" and "[engine]" in body)
    (tmp_path / "engine.toml").write_text(example)
    engine = spec.load(tmp_path, registry.load().keys())
    assert engine.offers("passthrough", {})
    assert engine.timeouts == spec.Timeouts(30, 30, 60)


@pytest.mark.parametrize("kind", ["Unknown", "Fail"])
def test_every_reason_code_in_the_kit_is_explained(kind):
    listed = {row[0]: row[1] for row in table(pages.reasons_table(), "code")}
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "conformance").rglob("*.py"))
    names = re.findall(rf"\b{kind}\(\s*Reason\.([A-Z_]+)", sources)
    assert names
    for name in names:
        assert listed[Reason[name]] == Reason[name].meaning


def test_the_architecture_page_says_where_things_are():
    """Each file in the table "Where to find it" contains what its row says."""
    page = (DOCS / "architecture.md").read_text("utf-8")
    rows = {row[0]: row[1] for row in table(page, "to find | look at")}
    said = {
        "the play of a run, for every command": ("def play(", "def tidy("),
        "the outcomes of judges, for every command": ("def judged(", "def recheck("),
        "the SIGKILL": ("signal.SIGKILL", "def kill("),
        "the check of a total": ("wrong-total",),
        "the recording of output": ("class Recorder",),
        "which process holds a connection": ("class ActivityWatch",),
        "the words of a failure": ("finding.",),
        "how many runs are played at once": ("def runs_at_once(",),
        "the exit status": ("def status_of(",),
        "what an own job is held to": ("def compared(",),
        "what is kept of a job's run": ("class JobRun(",),
        "the open transactions of a Kafka client": ("open_transactions",),
        "the bounds on what is read from disk": ("MAX_",),
        "an option of `tickproof run`": ("@options.parallel",),
        "the computation of p99.9": ("def percentiles_us(",),
    }
    for what, texts in said.items():
        path = re.match(r"`([\w/]+\.py)`", rows[what])[1]
        for text in texts:
            assert text in (ROOT / path).read_text("utf-8"), f"{what}: {path}"
    others = {
        "a requirement, its scenarios and its judges",
        "a mutant",
        "an app: what it owes, and its messages",
        "a fault: what it does, its limits, evidence and words",
    }
    assert rows.keys() == said.keys() | others
