"""Nothing of a sealed run can change without being noticed before the run is judged."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tickproof.conformance.cli.main import cli
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import seal
from tickproof.conformance.history.events import Deployed, Drained, EndPublished, Exited, Started
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.session import judging
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.conformance.verdicts import Verdict
from tickproof.generators.layouts import NUMBER


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A run that passes, with control lines; it keeps its input."""
    scenario = draw("double", Context(1))
    folder = tmp_path_factory.mktemp("sealed") / "run"
    run = RunFolder(folder, scenario)
    doubled = np.concatenate(run.history().inputs(NUMBER))
    doubled["x"] *= 2
    run.outputs(output_log(doubled, t_ns=30))
    parts = run.built.partitions
    run.tables(
        publishes=[(10, p.stream, p.partition, p.records) for p in parts],
        fetches=[(20, p.stream, p.partition, 0, p.records) for p in parts],
        usage=[],
    )
    run.control((1, "to", '{"op": "deploy"}'), (2, "from", '{"ok": true}'))
    run.events(
        Started(t_ns=0, pid=1),
        Deployed(t_ns=5, pid=1),
        EndPublished(t_ns=10, records=len(doubled)),
        Drained(
            t_ns=40,
            open_acknowledgements=0,
            staged_open=0,
            outputs=len(doubled),
            ended=True,
            partitions=(),
        ),
        Exited(t_ns=50, returncode=0),
    )
    write_json(folder / "verdict.json", [{"requirement": "SL-DOUBLE"}])
    run.seal()
    return folder


@pytest.fixture(scope="module")
def copied(sealed, tmp_path_factory):
    """Return a fresh copy of the run, in the place of the last one."""
    target = tmp_path_factory.mktemp("copied") / "run"

    def copy():
        shutil.rmtree(target, ignore_errors=True)
        return shutil.copytree(sealed, target)

    return copy


def refused(folder, said):
    with pytest.raises(HistoryError, match=said):
        judging.recheck(folder)


def test_the_run_passes_as_it_is(copied):
    assert [one.verdict for one in judging.recheck(copied())] == [Verdict.PASS]


@settings(max_examples=20)
@given(st.data())
def test_one_bit_of_any_file_is_noticed(copied, data):
    folder = copied()
    held = [name for name in seal.names(folder) if (folder / name).stat().st_size]
    assert {"control.jsonl", "publishes.bin", "run.json", "verdict.json"} < {*held}
    assert {"input/plan.npy", "output/s0.log"} < {*held}
    name = data.draw(st.sampled_from(held))
    content = bytearray((folder / name).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (folder / name).write_bytes(content)
    with pytest.raises(HistoryError) as error:
        judging.recheck(folder)
    assert name in str(error.value)


@settings(max_examples=20)
@given(st.data())
def test_one_bit_of_the_seal_is_noticed(copied, data):
    folder = copied()
    content = bytearray((folder / seal.FILE_NAME).read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    (folder / seal.FILE_NAME).write_bytes(content)
    refused(folder, "run")


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans())
def test_another_seed_and_other_faults_are_noticed(copied, seed, faults):
    folder = copied()
    run = json.loads((folder / "run.json").read_text())
    if faults:
        run["scenario"]["faults"] = [{"do": "kill", "target": "engine", "at": "fetched"}]
    else:
        run["seed"] += 1 + seed
    write_json(folder / "run.json", run)
    refused(folder, r"run\.json: changed after it was recorded")


@settings(max_examples=20)
@given(st.data())
def test_a_digest_that_was_removed_is_noticed(copied, data):
    folder = copied()
    lines = (folder / seal.FILE_NAME).read_text().splitlines(keepends=True)
    gone = data.draw(st.sampled_from(lines))
    (folder / seal.FILE_NAME).write_text("".join(line for line in lines if line != gone))
    refused(folder, "added after the run|changed after it was recorded")


def test_a_run_without_digests_is_refused_with_the_reason(copied):
    folder = copied()
    (folder / seal.FILE_NAME).unlink()
    refused(folder, r"SHA256SUMS: not found; expected the digests of a run that ended")


def test_a_run_without_digests_or_end_is_no_more_than_an_error_of_the_kit(copied):
    folder = copied()
    (folder / seal.FILE_NAME).unlink()
    run = json.loads((folder / "run.json").read_text())
    del run["ended"]
    write_json(folder / "run.json", run)
    assert [one.verdict for one in judging.recheck(folder)] == [Verdict.KIT_ERROR]


@pytest.mark.parametrize("name", ["hiccups-0.bin", "output/s1.odd", "input/s9p9.log", "notes.txt"])
def test_a_file_that_was_added_is_noticed(copied, name):
    folder = copied()
    (folder / name).write_bytes(b"")
    refused(folder, f"{name}: added after the run")


def test_a_file_that_was_removed_is_noticed_unless_it_can_be_made_again(copied):
    folder = copied()
    shutil.rmtree(folder / "input")
    assert [one.verdict for one in judging.recheck(folder)] == [Verdict.PASS]
    (folder / "usage.bin").unlink()
    refused(folder, r"usage\.bin: not found")


def test_tags_are_no_evidence(copied):
    folder = copied()
    before = seal.root(folder)
    write_json(folder / "tags.json", ["keep"])
    assert [one.verdict for one in judging.recheck(folder)] == [Verdict.PASS]
    assert seal.root(folder) == before


def checked(*words):
    done = CliRunner().invoke(cli, ["check", *map(str, words)])
    return done.exit_code, " ".join(done.output.split())


@settings(max_examples=20)
@given(st.data())
def test_digests_that_were_made_anew_give_another_root(copied, data):
    folder = copied()
    root = seal.root(folder)
    name = data.draw(st.sampled_from(["events.jsonl", "fetches.bin", "control.jsonl"]))
    content = (folder / name).read_bytes()
    size = 1 if name == "fetches.bin" else content.index(b"\n") + 1
    (folder / name).write_bytes(content[size:])  # an event was dropped, fetches were moved
    seal.write(folder, {})
    assert seal.root(folder) != root
    status, said = checked(folder, "--root", root)
    assert status == 2
    assert f"root {seal.root(folder)}, expected {root}" in said


def test_the_root_is_printed_and_accepted(copied):
    folder = copied()
    root = seal.root(folder)
    for words in ([folder], [folder, "--root", root]):
        status, said = checked(*words)
        assert (status, f"root {root}" in said) == (0, True)
    status, said = checked(folder, "--root", "12")
    assert (status, "--root: expected 64 hexadecimal digits; got '12'" in said) == (2, True)


@pytest.mark.parametrize("line", ["12  run.json", f"{'0' * 64} run.json", f"{'0' * 64}  a\u00e9"])
def test_a_seal_of_another_form_is_refused(copied, line):
    folder = copied()
    with (folder / seal.FILE_NAME).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    refused(folder, "SHA256SUMS.*: expected")
