"""`tickproof pack RUN`: one file that says the same elsewhere, and nothing of the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.long import few
from tickproof.conformance import resources
from tickproof.conformance.history import seal
from tickproof.conformance.history.folder import History
from tickproof.conformance.session.judging import recheck
from tickproof.conformance.session.pack import opened_run
from tickproof.conformance.session.pack.archive import write

SAME = ("requirement", "verdict", "scenario", "reason", "expected", "actual", "stimulus")


def same(outcomes):
    return [{key: outcome.to_json()[key] for key in SAME} for outcome in outcomes]


def members(path):
    with zipfile.ZipFile(path) as file:
        return {name.partition("/")[2]: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def held_run(polite_run, tmp_path_factory):
    """A run in which all held."""
    return polite_run(tmp_path_factory.mktemp("held"))


@pytest.fixture(scope="module")
def packed(failed_run, tmp_path_factory, tickproof):
    path = tmp_path_factory.mktemp("packed") / "failed.tickproof.zip"
    status, said = tickproof("pack", failed_run, "-o", path)
    assert status == 0, said
    with opened_run(path) as folder:
        assert said == f"{path}  {path.stat().st_size:,} bytes\nroot  {seal.root(folder)}\n"
    return path


def test_a_pack_gives_the_verdicts_of_its_run(failed_run, packed, tmp_path, tickproof):
    expected = same(recheck(failed_run))
    assert [row["verdict"] for row in expected] == ["fail"]
    with opened_run(packed) as folder:
        assert same(recheck(folder)) == expected
    assert not folder.exists()

    with zipfile.ZipFile(packed) as file:
        file.extractall(tmp_path)
    (by_hand,) = tmp_path.iterdir()
    assert same(recheck(by_hand)) == expected

    status, said = tickproof("check", packed)
    assert status == 1
    assert expected[0]["requirement"] in said
    assert str(folder.parent) not in said.replace(str(packed), "")


def test_two_packs_of_a_run_are_the_same_bytes(
    failed_run, packed, tmp_path, monkeypatch, tickproof
):
    monkeypatch.chdir(tmp_path)
    status, _ = tickproof("pack", failed_run)
    (again,) = tmp_path.iterdir()
    assert status == 0
    assert again.name == "miniature-offset-not-state-count-engine-death-seed7.tickproof.zip"
    assert again.read_bytes() == packed.read_bytes()
    # A pack may be packed again, and is judged before that.
    assert tickproof("pack", packed, "-o", "twice.zip")[0] == 0


def test_the_readme_says_what_went_wrong_and_names_each_file(failed_run, packed):
    held = members(packed)
    text = " ".join(held["README.txt"].decode().split())
    (outcome,) = recheck(failed_run)
    for said in (
        "miniature+offset-not-state",
        "SIGKILL of the engine",
        outcome.expected,
        outcome.actual,
        outcome.requirement,
        "tickproof check FILE",
        "tickproof replay FILE ENGINE",
        *(held.keys() - {"README.txt"}),
    ):
        assert said in text
    assert max(map(len, held["README.txt"].decode().splitlines())) <= 100


def test_a_run_that_holds_is_packed_too_with_its_input_where_that_is_small(
    held_run, tmp_path, monkeypatch, tickproof
):
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(held_run, tmp_path / "polite")
    assert not (run / "input").exists()
    assert tickproof("pack", run, "-o", "p.zip")[0] == 0
    held = members("p.zip")
    record = json.loads(held["run.json"])
    assert "Nothing." in held["README.txt"].decode()
    files = {row["file"] for row in record["input"]["partitions"]}
    size = sum(r["records"] * (4 + r["record_size"]) for r in record["input"]["partitions"])
    assert (files <= set(held)) == (size <= 1 << 20)
    assert tickproof("check", "p.zip")[0] == 0


LEAK = """
import atexit, getpass, os, socket, sys
def leak(file):
    print(dict(os.environ), os.getcwd(), sys.argv, sys.executable, getpass.getuser(),
          socket.gethostname(), os.path.expanduser("~"), __file__, file=file, flush=True)
leak(sys.stderr)
"""


@pytest.fixture(scope="module")
def telling_run(session_type, tmp_path_factory):
    """A failed run in a tell-tale folder, of a tell-tale user, with an engine that tells all."""
    base = tmp_path_factory.mktemp("telltale-folder")
    site = base / "telltale-site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import socket\nsocket.gethostname = lambda: 'telltale-host.example'\n"
    )
    here = base / "telltale-w\u00f6rk"
    here.mkdir()
    engine = here / "telltale-engine"
    shutil.copytree(resources.fixtures() / "engines" / "minimal", engine)
    text = (engine / "adapter.py").read_text()
    text = text.replace("MASK =", LEAK + "MASK =", 1)
    assert text.count('"name": "minimal"') == 1
    text = text.replace('"name": "minimal"', '"name": getpass.getuser() + "@" + os.getcwd()')
    assert text.count('error=f"no op {op}"') == 1
    text = text.replace('error=f"no op {op}"', 'error=f"no op {op} in {request} {__file__}"')
    assert text.count("        step = {") == 1
    text = text.replace(
        "        step = {", "        print(request, file=sys.stderr)\n        step = {"
    )
    assert text.count("        answer(request)\n        break") == 1
    text = text.replace(
        "        answer(request)\n        break", "        raise OSError(2, 'gone', os.getcwd())"
    )
    (engine / "adapter.py").write_text(text)
    environment = os.environ | {
        "USER": "telltaleuser",
        "LOGNAME": "telltaleuser",
        "HOME": str(base / "telltale-home"),
        "MY_API_TOKEN": "telltalesecret",
        "CI": "1",
        "PYTHONPATH": os.pathsep.join([str(site), str(resources.fixtures().parent)]),
    }
    command = [sys.executable, "-m", "tickproof.conformance.cli.main"]
    done = subprocess.run(
        [*command, "run", str(engine), "--only", "SL-PASSTHROUGH", "--seed", "1", "-n", "1"],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (run,) = (p.parent for p in here.glob("**/passthrough/run.json"))
    told = (run / "stderr.log").read_text() + (run / "control.jsonl").read_text()
    for word in ("telltaleuser", "telltale-host", "telltale-home", "telltalesecret"):
        assert word in told
    return run, here, environment


@pytest.mark.parametrize("where", few(["there", "elsewhere"]))
def test_nothing_in_a_pack_tells_where_it_was_made(telling_run, tmp_path, where):
    run, here, environment = telling_run
    path = tmp_path / "a.zip"
    if where == "elsewhere":  # packed by somebody else, to whom the run was copied
        run = shutil.copytree(run, tmp_path / "copied")
        here, environment = tmp_path, os.environ | {"PYTHONPATH": str(resources.fixtures().parent)}
    done = subprocess.run(
        [sys.executable, "-m", "tickproof.conformance.cli.main", "pack", str(run), "-o", str(path)],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    token = json.loads(
        next(row["line"] for row in History(run).control if '"deploy"' in row["line"])
    )["data"]["token"]
    telling = [
        b"telltale",
        token.encode(),
        str(tmp_path).encode(),
        b"/pytest-of-",
        sys.prefix.encode(),
        str(resources.fixtures().parent).encode(),
    ]
    held = members(path)
    found = [
        (name, word)
        for name, content in held.items()
        for word in telling
        if word.lower() in content.lower()
    ]
    assert found == []
    assert b"{user}" in held["control.jsonl"]
    assert b"{state_dir}" in held["stderr.log"]
    with opened_run(path) as folder:
        verdicts = [(o.requirement, o.verdict, o.reason) for o in recheck(folder)]
    assert verdicts == [(o.requirement, o.verdict, o.reason) for o in recheck(run)]


@pytest.mark.parametrize("user", ["worker", "text", "fault"])
def test_a_user_called_like_a_word_of_the_run_changes_nothing(
    failed_run, tmp_path, tickproof, monkeypatch, user
):
    monkeypatch.setenv("LOGNAME", user)
    assert tickproof("pack", failed_run, "-o", tmp_path / "p.zip")[0] == 0
    held = members(tmp_path / "p.zip")
    assert b"{user}" not in held["events.jsonl"]
    assert b'"event":"fault"' in held["events.jsonl"]


def test_long_standard_error_keeps_its_end(held_run, tmp_path, monkeypatch, tickproof):
    monkeypatch.setattr("tickproof.conformance.session.pack.writer.STDERR_BYTES", 100)
    run = shutil.copytree(held_run, tmp_path / "polite")
    lines = [f"line {number}".encode() for number in range(50)]
    (run / "stderr.log").write_bytes(b"\n".join([*lines, b"\xff\xfe last\n"]))
    seal.write(run, {})
    assert tickproof("pack", run, "-o", tmp_path / "p.zip")[0] == 0
    said = members(tmp_path / "p.zip")["stderr.log"]
    first, *rest = said.split(b"\n")
    assert first.startswith(b"[tickproof: ")
    assert rest[-2:] == [b"\xff\xfe last", b""]
    assert set(rest[:-2]) <= set(lines)
    left_out = int(first.split()[1].replace(b",", b""))
    assert left_out + len(b"\n".join(rest)) == (run / "stderr.log").stat().st_size


def test_bytes_of_output_that_name_the_machine_are_kept_and_told(held_run, tmp_path, tickproof):
    run = shutil.copytree(held_run, tmp_path / "polite")
    record = json.loads((run / "run.json").read_text())
    home = record["made_at"]["folders"]["kit"].encode()
    content = b"made in " + home
    (run / "output" / "s0.odd").write_bytes(content)
    seal.write(run, {})
    status, said = tickproof("pack", run, "-o", tmp_path / "p.zip")
    assert status == 0
    assert "warning: output/s0.odd holds {kit}" in said
    assert members(tmp_path / "p.zip")["output/s0.odd"] == content


def test_what_cannot_be_packed_is_wrong_usage(failed_run, tmp_path, tickproof):
    (tmp_path / "text").write_text("hello")
    for words, said in (
        (("pack", tmp_path), "expected a run folder"),
        (("pack", tmp_path / "none"), "does not exist"),
        (("pack", tmp_path / "text"), "expected a whole pack"),
        (("check", tmp_path / "text"), "expected a whole pack"),
        (("replay", tmp_path / "text", "miniature"), "expected a whole pack"),
        (("pack", failed_run, "-o", tmp_path / "text" / "p.zip"), "a file that can be written"),
    ):
        status, output = tickproof(*words)
        assert (status, said in " ".join(output.split())) == (2, True), (words, output)


def test_a_pack_goes_into_a_folder_that_is_made(failed_run, tmp_path, tickproof):
    assert tickproof("pack", failed_run, "-o", tmp_path / "no" / "such" / "p.zip")[0] == 0
    assert members(tmp_path / "no" / "such" / "p.zip")


def repacked(packed, path, **changes):
    """Write the pack again, its run.json changed: manifest and hashes fit."""
    with opened_run(packed) as folder:
        run = json.loads((folder / "run.json").read_text())
        for key, change in changes.items():
            change(run[key])
        (folder / "run.json").write_text(json.dumps(run))
        seal.write(folder, {})
        found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        write(path, "top", {n: p for n, p in found.items() if n != "manifest.json"})
    return path


@pytest.mark.parametrize(
    ("key", "change", "said"),
    [
        ("input", lambda i: i["partitions"][0].update(file="../../etc/passwd"),
         "input.partitions.0.file: String should match"),
        ("input", lambda i: i["partitions"][0].update(file="/etc/passwd"),
         "input.partitions.0.file: String should match"),
        ("input", lambda i: i["partitions"][0].update(records=2**40), "too much"),
        ("input", lambda i: i["recipe"].update(records=2**32), "too much"),
        ("input", lambda i: i["recipe"].update(kind="payloads", size=2**20), "too much"),
        ("input", lambda i: i["recipe"].update(kind="market-csv", quotes="/etc/passwd"),
         "recorded market is not in the pack"),
        ("input", lambda i: i.pop("partitions"), "expected the record of a run"),
        ("input", lambda i: i.update(partitions=7), "expected the record of a run"),
        ("scenario", lambda s: s.update(surprise=1), "expected the record of a run"),
        ("scenario", lambda s: s.update(faults=[{"do": 1}]), "expected the record of a run"),
    ],
)  # fmt: skip
def test_a_record_that_asks_for_too_much_is_refused(packed, tmp_path, key, change, said, tickproof):
    path = repacked(packed, tmp_path / "p.zip", **{key: change})
    for words in (("check", path), ("replay", path, "miniature")):
        status, output = tickproof(*words)
        assert (status, said in " ".join(output.split())) == (2, True), output


def test_an_error_names_what_the_user_named(held_run, tmp_path, tickproof):
    run = shutil.copytree(held_run, tmp_path / "run")
    (run / "events.jsonl").write_text("no JSON\n")
    seal.write(run, {})
    files = {f.relative_to(run).as_posix(): f for f in run.rglob("*") if f.is_file()}
    write(tmp_path / "p.zip", "top", files)
    for words in (("pack", run), ("check", tmp_path / "p.zip")):
        status, output = tickproof(*words)
        said = " ".join(output.split())
        assert f"{words[1]}: events.jsonl, line 1: not JSON" in said
        assert (status, "tickproof-" in said) == (2, False)


@pytest.mark.parametrize("name", ["../../etc/passwd", "output/s0.odd"])
def test_a_seal_that_lists_what_the_pack_does_not_hold_is_refused(
    packed, tmp_path, name, tickproof
):
    with opened_run(packed) as folder:
        with (folder / seal.FILE_NAME).open("a") as file:
            file.write(f"{'0' * 64}  {name}\n")
        found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        write(tmp_path / "p.zip", "top", found)
    status, output = tickproof("check", tmp_path / "p.zip")
    assert (status, f"{name}: not found" in " ".join(output.split())) == (2, True), output


def test_the_engine_that_a_pack_names_is_not_started(packed, tmp_path, tickproof):
    path = repacked(packed, tmp_path / "p.zip", engine=lambda e: e.update(toml="/bin/sh"))
    with opened_run(path) as folder:
        run = json.loads((folder / "run.json").read_text())
        toml = str(resources.fixtures() / "engines/miniature/engine.toml")
        run["made_at"] = {"engine": toml, "folders": {}, "user": "", "host": "", "addresses": []}
        (folder / "run.json").write_text(json.dumps(run))
        seal.write(folder, {})
        found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        write(path, "top", {n: p for n, p in found.items() if n != "manifest.json"})
    status, said = tickproof("replay", path)
    assert status == 2
    assert "a pack does not hold one" in " ".join(said.split())
