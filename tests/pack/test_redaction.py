"""What names the machine leaves no trace in a text; all else stays as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.session.pack.redaction import Redactor

MADE_AT = {
    "engine": "/srv/jür gen/engines/one/engine.toml",
    "folders": {"home": "/home/jürgen", "cwd": "/home/jürgen/work", "kit": "/opt/kit/lib",
                "python": "/opt/venvs/tell"},
    "user": "jürgen", "host": "box7.corp.example", "addresses": ["172.17.0.2", "fe80::1:2"],
}  # fmt: skip
RUN = "/home/jürgen/work/out/runs/1"
TOKEN = "0123456789abcdef0123456789abcdef"
TELLING = [
    *MADE_AT["folders"].values(), f"{RUN}/state", RUN, "/srv/jür gen/engines/one", TOKEN,
    "jürgen", "box7.corp.example", "box7", "172.17.0.2", "fe80::1:2",
]  # fmt: skip


@pytest.fixture(scope="module")
def redact():
    folders = [("state_dir", f"{RUN}/state"), ("run", RUN)]
    return Redactor(MADE_AT, folders, [TOKEN], '{"engine": "miniature", "role": "worker"}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{RUN}/state/cut.bin", "{state_dir}/cut.bin"),
        (f"at {RUN}.", "at {run}."),
        ("/srv/jür gen/engines/one/adapter.py", "{engine}/adapter.py"),
        ('File "/home/jürgen/work/a.py", line 3', 'File "{cwd}/a.py", line 3'),
        ("-I/home/jürgen/include", "-I{home}/include"),
        ("/home/jürgens/a.py, see /data/x/y.", "{path}/a.py, see {path}"),
        ("/usr/lib/jvm/java-17/bin/java", "{path}"),
        ("file:///data/q/r.csv", "file://{path}/r.csv"),
        ("cannot open:\n/data/q/r.csv", "cannot open:\n{path}/r.csv"),
        ("jürgen@box7: ready", "{user}@{host}: ready"),
        ("http://box7.corp.example:4040/x/y", "http://{host}:4040/x/y"),
        ("listening on 172.17.0.2:80", "listening on {address}:80"),
        (f"token {TOKEN}", "token {token}"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+1", "AWS_SECRET_ACCESS_KEY={secret}"),
        ("{'MY_API_TOKEN': 'hush', 'A': 'b'}", "{'MY_API_TOKEN': '{secret}', 'A': 'b'}"),
    ],
)
def test_each_has_its_word(redact, text, expected):
    assert redact(text) == expected
    once = json.dumps({"text": text})
    assert json.loads(redact(once)) == {"text": expected}
    twice = json.dumps({"line": once})
    assert json.loads(json.loads(redact(twice))["line"]) == {"text": expected}


@pytest.mark.parametrize(
    "text",
    [
        "input/s0p0.log", "1,000 records/s", "http://127.0.0.1:4040/a/b", "and/or", "1/2/3",
        '{"event": "fault", "do": "kill", "target": "worker"}', "PR-TOKEN: fail",
        "https://spark.apache.org/docs/latest/index.html", "/tmp", "n=1 total=-3664617",
    ],
)  # fmt: skip
def test_what_names_nothing_stays(redact, text):
    assert redact(text) == text


def test_a_user_called_like_a_word_of_the_run_stays():
    line = '{"event":"topology","processes":[{"role":"worker"}]} worker root'
    for user in ("worker", "root"):
        redact = Redactor(MADE_AT | {"user": user}, [], [], 'role "worker"')
        assert redact(line) == line
    redact = Redactor(MADE_AT | {"user": "flink"}, [], [], 'role "worker"')
    assert redact("flink flinks") == "{user} flinks"


def test_secrets_of_this_environment_go_by_value(monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "correct horse")
    redact = Redactor({}, [], [], "")
    assert redact("it said correct horse") == "it said {MY_PASSWORD}"


@given(
    st.lists(st.sampled_from(TELLING), min_size=1, max_size=5),
    st.lists(
        st.sampled_from([" ", "\n", '"', "'", ", ", ": ", "=", "(", "\t"]), min_size=6, max_size=6
    ),
    st.integers(0, 2),
    st.booleans(),
)
def test_nothing_telling_is_left_however_it_was_escaped(redact, told, between, times, ascii_only):
    text = "".join(gap + word for gap, word in zip(between, told, strict=False)) + between[-1]
    for _ in range(times):
        text = json.dumps([text], ensure_ascii=ascii_only)
    found = redact(text)
    for _ in range(times):
        (found,) = json.loads(found)
    assert [word for word in TELLING if word in found] == []
    assert "\\u00fc" not in found
