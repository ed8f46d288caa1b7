"""Two recordings: what is planted is found, what cannot be told is unknown, what is bad is said."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.long import examples
from tickproof.conformance.cli import main
from tickproof.conformance.jobs import pair, pair_report, recording
from tickproof.conformance.jobs.comparison import Kind, canonical
from tickproof.conformance.jobs.fingerprints import Hashing, normal
from tickproof.conformance.jobs.pair import Found, Rules
from tickproof.conformance.verdicts import Verdict
from tickproof.generators import spill

Values = dict[str, Any]
Judge = Callable[..., tuple[int, str, str]]

ORDERS = [
    {"id": n, "customer": f"c{n % 7}", "cents": n * n % 91, "note": "é" * (n % 20)}
    for n in range(200)
]
BY_ID = Rules(("id",))
BY_KEY = Rules(("id",), ("customer",))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """So that these few records lie in several blocks of an array, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "BLOCK", 5)
        yield


def write(path: Path, values: Sequence[Values]) -> Path:
    """Write records as the name of the file says."""
    if ".csv" in path.suffixes:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(values[0]))
            writer.writeheader()
            writer.writerows(values)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(values), path)
    else:
        text = "".join(json.dumps(one) + "\n" for one in values).encode()
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def found(
    tmp_path: Path, due: Sequence[Values], got: Sequence[Values], rules: Rules = BY_KEY
) -> Found:
    """Judge two lists of records."""
    sides = [
        recording.opened(name, write(tmp_path / f"{name}.jsonl", values), {})
        for name, values in (("IN", due), ("OUT", got))
    ]
    return pair.judged(*sides, rules, tmp_path)


def verdicts(one: Found, rules: Rules = BY_KEY) -> dict[str, Verdict]:
    return {each.requirement: each.verdict for each in pair_report.outcomes(one, rules, 3)}


@pytest.fixture
def judge(capsys, monkeypatch, tmp_path) -> Judge:
    """Call `tickproof judge` in an empty folder: status, stdout, stderr on one line each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main.main(["judge", *map(str, arguments)])
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return call


# -- what is planted -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_a_sound_pair_passes(judge: Judge, tmp_path: Path, name: str) -> None:
    """Workers answer their keys side by side: the order of all records is another."""
    by_worker = sorted(ORDERS, key=lambda one: one["customer"])
    write(tmp_path / "in.jsonl", ORDERS)
    write(
        tmp_path / name, [{**one, "worker": 1, "cents": float(one["cents"])} for one in by_worker]
    )
    status, out, err = judge("in.jsonl", name, "--identity", "id", "--key", "customer")
    assert status == 0, out + err
    assert "4 pass" in out and "sequence by key: customer, cents, note" in out


def test_each_mistake_is_found_with_its_record_and_lines(judge: Judge, tmp_path: Path) -> None:
    got = [dict(one) for one in ORDERS]
    got[20]["cents"] = -1
    got[30], got[37] = got[37], got[30]
    got.insert(100, dict(got[50]))
    del got[10]
    write(tmp_path / "in.jsonl", ORDERS)
    write(tmp_path / "out.jsonl", got)
    status, out, _ = judge("in.jsonl", "out.jsonl", "--identity", "id", "--key", "customer")
    assert status == 1
    assert '10: IN line 11: {"id": 10, "customer": "c3",' in out
    assert "50: OUT line 50: " in out and " and OUT line 100: " in out
    assert "20: cents is -1, expected 36: OUT line 20: " in out
    assert 'IN line 31: {"id": 30, ' in out and 'is due where OUT line 30: {"id": 37, ' in out
    assert out.count("✗ JB-") == 4


def test_a_changed_double_and_an_answer_to_nothing_are_values(tmp_path: Path) -> None:
    got = [*ORDERS, {**ORDERS[3], "cents": -1}, {**ORDERS[3], "id": 10_000}]
    one = found(tmp_path, ORDERS, got)
    assert [each.kind for each in one.differences] == [Kind.VALUE, Kind.VALUE]
    brief = pair_report.outcomes(one, BY_KEY, 3)[2].story["brief"]
    assert ["answers no record" in line for line in brief] == [True, True]


@pytest.mark.parametrize("rules", [{"values": ("cents",)}, {"ignore": ("customer",)}])
def test_an_output_of_another_key_is_wrong_whatever_is_compared(
    tmp_path: Path, rules: dict[str, tuple[str, ...]]
) -> None:
    got = [{**one, "customer": "c0"} if one["id"] == 50 else one for one in ORDERS]
    one = found(tmp_path, ORDERS, got, replace(BY_KEY, **rules))
    assert [(each.kind, each.identity) for each in one.differences] == [(Kind.VALUE, "50")]


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.csv", "in.parquet"])
def test_places_are_those_of_the_whole_file(tmp_path: Path, monkeypatch, name: str) -> None:
    for size in ("_PIECE", "_FIRST", "_ROWS"):
        monkeypatch.setattr(recording, size, 300)
    path = write(tmp_path / name, ORDERS)
    if name == "in.jsonl":
        path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 50))
    side = recording.opened("IN", path, {})
    pieces = list(side.pieces(["id"]))
    for piece in pieces:
        piece.columns(["id"]) or piece.values(["id"])
    picked = side.picked([199, 0, 49, 50, 51, 120], [one.count for one in pieces])
    assert [int(picked[at].value["id"]) for at in sorted(picked)] == [0, 49, 50, 51, 120, 199]
    line = 1 + 49 * 2 + 2 if name == "in.jsonl" else 51
    word = "line" if "jsonl" in name else "row"
    assert picked[50].where == f"{word} {line}"


def test_values_of_a_dictionary_are_those_of_their_texts(tmp_path: Path) -> None:
    """A dictionary may be larger than a piece, and all rows written out larger than 2 GiB."""
    texts = [f"{n}-{'x' * 20_000}" for n in range(40)]
    which = np.arange(200_000) % 41
    column = pa.DictionaryArray.from_arrays(
        pa.array(which, pa.int32(), mask=which == 40), pa.array(texts)
    )
    pq.write_table(pa.table({"id": np.arange(200_000), "v": column}), tmp_path / "in.parquet")
    side = recording.opened("IN", tmp_path / "in.parquet", {})
    hashing, sizes, found = Hashing(), [], []
    for piece in side.pieces(["v"]):
        found.append(hashing.column("v", piece.columns(["v"])["v"]))
        sizes.append(len(found[-1]))
    expected = np.append(hashing.column("v", texts), np.uint64(0))
    assert np.array_equal(np.concatenate(found), expected[which])
    assert len(sizes) > 1_000
    assert side.picked([199_999], sizes)[199_999].value == {"id": 199_999, "v": texts[199_999 % 41]}


# -- against slow and obvious versions -----------------------------------------------------------

LOG = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=1, max_size=12)


def of_lists(due: Sequence[Values], got: Sequence[Values], rules: Rules) -> Found:
    with TemporaryDirectory() as folder:
        return found(Path(folder), due, got, rules)


@settings(max_examples=examples(400), deadline=None)
@given(LOG, LOG, st.booleans())
def test_what_is_wrong_is_what_counters_say(due: list, got: list, repeats: bool) -> None:
    rules = Rules(("id",), delivery="at-least-once" if repeats else "exactly-once", complete=True)
    sides = [[{"id": id_, "v": value} for id_, value in one] for one in (due, got)]
    differences = of_lists(*sides, rules).differences
    for id_ in range(7):
        wanted, there = (Counter(v for i, v in side if i == id_) for side in (due, got))
        if repeats:
            wanted, there = Counter(set(wanted)), Counter(set(there))
        strange = sum(n for value, n in (there - wanted).items() if value not in wanted)
        expected = {
            Kind.LOST: (wanted - there).total() > strange,
            Kind.TWICE: any(value in wanted for value in there - wanted),
            Kind.VALUE: strange > 0,
        }
        said = {one.kind for one in differences if one.identity == str(id_)}
        assert said == {kind for kind, holds in expected.items() if holds}


@settings(max_examples=examples(400), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 3))
def test_losses_and_orders_are_those_of_lists(seed: int, keys: int, moves: int) -> None:
    """Drop, repeat, move and cut records of a few keys; a plain loop says what can be told."""
    chance = random.Random(seed)
    due = [{"id": n, "customer": str(chance.randrange(keys))} for n in range(12)]
    got = [one for one in due if chance.random() < 0.9]
    for _ in range(moves):
        got.insert(chance.randint(0, len(got)), chance.choice(due))
    got = got[: chance.randint(1, 12)]
    one = of_lists(due, got, BY_KEY)
    times = Counter(each["id"] for each in got)
    lost, missing, swapped = set(), set(), set()
    for each in due:
        if not times[each["id"]]:
            later = [
                other
                for other in due
                if other["customer"] == each["customer"] and other["id"] > each["id"]
            ]
            (lost if any(times[other["id"]] for other in later) else missing).add(str(each["id"]))
    for key in map(str, range(keys)):
        order = [o["id"] for o in got if o["customer"] == key and times[o["id"]] == 1]
        if order != sorted(order):
            swapped.add(key)
    assert {d.identity for d in one.differences if d.kind is Kind.LOST} == lost
    assert {d.identity for d in one.missing} == missing
    orders = [d for d in one.differences if d.kind is Kind.ORDER]
    assert sorted(d.due[0].value["customer"] for d in orders) == sorted(swapped)
    twice = {d.identity for d in one.differences if d.kind is Kind.TWICE}
    assert twice == {str(id_) for id_, count in times.items() if count > 1}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**53 - 2, 2**53 + 2)
    | st.floats()
    | st.text()
    | st.text("ab", min_size=250, max_size=270),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=examples(800), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6), st.sampled_from(["jsonl", "parquet"]))
def test_columns_of_arrays_are_hashed_as_their_values_are(values: list, kind: str) -> None:
    hashing = Hashing()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"in.{kind}"
        try:
            write(path, [{"v": one} for one in values])
        except (pa.ArrowException, UnicodeEncodeError, OverflowError):
            assume(False)  # no column of Parquet
        side = recording.opened("IN", path, {})
        quick = np.concatenate(
            [
                hashing.column("v", (piece.columns(["v"]) or piece.values(["v"]))["v"])
                for piece in side.pieces(["v"])
            ]
        )
        read = [one.value.get("v") for one in side.records()]
    assert quick.tolist() == hashing.column("v", read).tolist()
    texts = [None if one is None else canonical(normal(one)) for one in read]
    assert [len({*quick.tolist()}), quick.tolist().count(0)] == [len({*texts}), texts.count(None)]


# -- where the end cannot be told ----------------------------------------------------------------


def test_a_missing_end_is_unknown_and_a_hole_is_a_loss(tmp_path: Path) -> None:
    cut = found(tmp_path, ORDERS, ORDERS[:-3])
    assert verdicts(cut)["JB-LOST"] is Verdict.UNKNOWN
    assert [one.identity for one in cut.missing] == ["197", "198", "199"]
    hole = found(tmp_path, ORDERS, [one for one in ORDERS if one["id"] != 150])
    assert verdicts(hole)["JB-LOST"] is Verdict.FAIL


def test_without_an_order_only_a_complete_output_shows_a_loss(tmp_path: Path) -> None:
    left = ORDERS[1:]
    for rules in (
        BY_ID,
        replace(BY_KEY, unordered=True),
        replace(BY_KEY, delivery="at-least-once"),
    ):
        assert verdicts(found(tmp_path, ORDERS, left, rules), rules)["JB-LOST"] is Verdict.UNKNOWN
        whole = replace(rules, complete=True)
        assert verdicts(found(tmp_path, ORDERS, left, whole), whole)["JB-LOST"] is Verdict.FAIL


def test_an_empty_output_shows_nothing(judge: Judge, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", ORDERS)
    write(tmp_path / "out.jsonl", [])
    status, out, _ = judge("in.jsonl", "out.jsonl", "--identity", "id", "--key", "customer")
    assert status == 3 and "pass" not in out
    status, out, _ = judge("in.jsonl", "out.jsonl", "--identity", "id", "--complete")
    assert status == 1 and "200 records have no output" in out


def test_at_least_once_allows_repeats(tmp_path: Path) -> None:
    rules = replace(BY_KEY, delivery="at-least-once")
    assert verdicts(found(tmp_path, ORDERS, [*ORDERS, *ORDERS[50:90]], rules), rules) == {
        "JB-LOST": Verdict.PASS,
        "JB-TWICE": Verdict.NOT_CLAIMED,
        "JB-VALUES": Verdict.PASS,
        "JB-ORDER": Verdict.NOT_CLAIMED,
    }


def test_more_differences_than_are_read_again_are_counted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pair, "_EXACT", 10)
    one = found(tmp_path, ORDERS, [{**order, "cents": -1} for order in reversed(ORDERS)])
    assert len(one.differences) == 10 and one.beyond == 380
    assert {each.kind for each in one.differences} == {Kind.VALUE}
    first = pair_report.outcomes(one, BY_KEY, 3)
    assert first[2].story["headline"] == ["at least 10 outputs are not those due"]
    assert first[0].verdict is Verdict.UNKNOWN


# -- an oracle -----------------------------------------------------------------------------------

ORACLE = """
def expect(state, order):
    state["n"] = state.get("n", 0) + 1
    state["cents"] = state.get("cents", 0) + order["cents"]
    return {"customer": order["customer"], **state}
"""
BY_ORACLE = ("--oracle", "oracle.py:expect", "--key", "customer")


def totals(orders: Sequence[Values], text: str = ORACLE) -> list[Values]:
    names: dict[str, Any] = {}
    exec(text, names)
    states: dict[str, Values] = {}
    return [names["expect"](states.setdefault(one["customer"], {}), one) for one in orders]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (lambda out: out, 0, "4 pass"),
        (lambda out: out[:-1], 3, "1 record has no output yet"),
        (lambda out: [*out[:50], *out[51:]], 1, 'IN line 51: {"id": 50,'),
        (lambda out: [*out, out[60]], 1, "OUT line 201: "),
        (lambda out: totals([*ORDERS[:50], *ORDERS[51:]]), 1, "expected "),
        (lambda out: [*out[:30], out[37], *out[31:37], out[30], *out[38:]], 1, "JB-ORDER"),
    ],
    ids=["sound", "cut", "hole", "double", "lost state", "swapped"],
)
def test_an_oracle_says_what_is_due(
    judge: Judge, tmp_path: Path, change: Callable[[list], list], status: int, said: str
) -> None:
    (tmp_path / "oracle.py").write_text(ORACLE)
    write(tmp_path / "in.jsonl", ORDERS)
    write(tmp_path / "out.jsonl", change(totals(ORDERS)))
    found_status, out, err = judge("in.jsonl", "out.jsonl", *BY_ORACLE)
    assert (found_status, said in out) == (status, True), out + err


AS_IT_IS = "def expect(state, record):\n    return record\n"
SEQUENCES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=8)


@settings(max_examples=examples(400), deadline=None)
@given(SEQUENCES.filter(bool), SEQUENCES)
def test_what_is_wrong_by_an_oracle_is_what_lists_say(due: list, got: list) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "oracle.py"
        path.write_text(AS_IT_IS)
        rules = Rules((), ("k",), oracle=f"{path}:expect")
        one = found(
            Path(folder), *([{"k": k, "v": v} for k, v in side] for side in (due, got)), rules
        )
    for key in (0, 1):
        lines = [line for line, (k, _) in enumerate(due, 1) if k == key]
        wanted, there = ([v for k, v in side if k == key] for side in (due, got))
        more = Counter(there) - Counter(wanted)
        left, open_ = Counter(there), []
        for at, value in enumerate(wanted):
            left[value] -= 1
            if left[value] < 0:
                open_.append(at)
        strange = sum(count for value, count in more.items() if value not in wanted)
        open_ = open_[strange:]
        last = max((at for at in range(len(wanted)) if at not in open_), default=-1)
        even = [v for v in range(4) if wanted.count(v) == there.count(v)]
        sequences = [[v for v in side if v in even] for side in (wanted, there)]
        found_here = [d for d in one.differences if d.identity == str(key)]
        assert {d.kind for d in found_here if d.kind is not Kind.LOST} == {
            kind
            for kind, holds in {
                Kind.TWICE: any(value in wanted for value in more),
                Kind.VALUE: strange > 0,
            }.items()
            if holds
        }
        for which, places in (
            ([d for d in found_here if d.kind is Kind.LOST], [at for at in open_ if at < last]),
            ([d for d in one.missing if d.identity == str(key)], [at for at in open_ if at > last]),
        ):
            said = [placed.where for d in which for placed in d.due]
            assert said == [f"line {lines[at]}" for at in places]
        for each in (d for d in found_here if d.kind is not Kind.LOST):
            for text, placed in ((each.expected or each.actual, each.due), (each.actual, each.got)):
                assert all(text == canonical({"v": one.value["v"]}) for one in placed)
        orders = [d.due[0].value["k"] for d in one.differences if d.kind is Kind.ORDER]
        assert (key in orders) == (sequences[0] != sequences[1])


def test_an_oracle_with_an_identity_holds_to_the_order_of_the_key(tmp_path: Path) -> None:
    text = ORACLE.replace("{", '{"id": order["id"], ', 1)
    (tmp_path / "oracle.py").write_text(text)
    due = totals(ORDERS, text)
    rules = replace(BY_KEY, oracle=f"{tmp_path / 'oracle.py'}:expect")
    swapped = [*due[:30], due[37], *due[31:37], due[30], *due[38:]]
    for got, kinds in ((due, []), (swapped, [Kind.ORDER])):
        one = found(tmp_path, ORDERS, got, rules)
        assert ([each.kind for each in one.differences], one.missing) == (kinds, [])
    (moved,) = one.differences
    assert moved.due[0].where == "line 31" and moved.got[0].value["id"] == 37


def test_a_field_that_an_oracle_gives_and_the_output_lacks_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "oracle.py").write_text(ORACLE)
    got = [{"customer": one["customer"], "cents": one["cents"]} for one in totals(ORDERS)]
    rules = Rules((), ("customer",), oracle=f"{tmp_path / 'oracle.py'}:expect")
    one = found(tmp_path, ORDERS, got, rules)
    assert one.fields == ("n", "cents") and {each.kind for each in one.differences} == {Kind.VALUE}


# -- what is no recording ------------------------------------------------------------------------

LINE = b'{"id": 1}\n'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("in.jsonl", b"", "expected records; there are none"),
        ("in.jsonl", b"\n\n", "expected records; there are none"),
        ("in.jsonl", LINE + b'{"id": 2, "cu', 'line 2: expected a JSON object; got \'{"id": 2, '),
        ("in.jsonl", LINE + b"null\n", "line 2: expected a JSON object; got 'null'"),
        ("in.jsonl", b"null\n" + LINE, "line 1: expected a JSON object; got 'null'"),
        ("in.jsonl", b'{"id": 1}{"id": 2}\n', "line 1: expected a JSON object"),
        ("in.jsonl", b"\n" + LINE + b"[1]\n", "line 3: expected a JSON object; got '[1]'"),
        ("in.jsonl", b'{"id": 1, "id": 2}\n', "line 1: expected a JSON object; got "),
        ("in.jsonl", LINE + b'{"id": null}\n', "line 2: expected a value of 'id'"),
        ("in.jsonl", LINE + b'{"di": 1}\n', "line 2: expected a value of 'id'"),
        ("in.jsonl", LINE + b'{"id": "\xff"}\n', "line 2: expected a JSON object"),
        ("in.jsonl", b'{"id": ' + b"[" * 100_000 + b"\n", "line 1: expected a JSON object"),
        ("in.jsonl", b'{"di": 1}\n', "--identity id: IN has no such field; it has di"),
        ("in.jsonl.gz", gzip.compress(LINE * 1000, mtime=0)[:-20], "it cannot be unpacked"),
        ("in.csv", b"id,id\n1,2\n", "column id is there twice"),
        ("in.csv", b"", "line 1: expected the names of columns"),
        ("in.csv", b"id,n\n1,2\n3\n", "expected 2 columns, got 1".capitalize()),
        ("in.csv", b"id\nx\n", "row 1, column id: expected integer; got 'x'"),
        ("in.parquet", b"PAR1xxxxPAR1", "in.parquet: "),
        ("in.zip", b"PK\x03\x04", "it is a zip archive"),
        ("in.dat", LINE, "expected a name that ends in .jsonl"),
    ],
)
def test_what_is_no_recording_is_said(
    judge: Judge, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    write(tmp_path / "out.jsonl", [{"id": 1}])
    types = ("--types", "id=integer") if name == "in.csv" else ()
    status, out, err = judge(name, "out.jsonl", "--identity", "id", *types)
    assert (status, out) == (2, "")
    assert said in err


def test_what_is_no_regular_file_is_said(judge: Judge, tmp_path: Path) -> None:
    out = write(tmp_path / "out.jsonl", ORDERS)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(out)
    for name, said in {
        ".": "expected a regular file; it is a folder",
        "pipe.jsonl": "expected a regular file; it is a named pipe",
        "nothing.jsonl": "nothing.jsonl: No such file",
        "out.jsonl": "OUT: expected another recording than IN",
        "link.jsonl": "OUT: expected another recording than IN",
    }.items():
        status, _, err = judge(name, "out.jsonl", "--identity", "id")
        assert status == 2 and said in err, name


def test_a_line_that_is_no_record_is_said(judge: Judge, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", ORDERS)
    (tmp_path / "out.jsonl").write_bytes(b'{"id":"' + b"x" * 9_000_000)
    status, _, err = judge("in.jsonl", "out.jsonl", "--identity", "id")
    assert status == 2 and "out.jsonl: line 1: expected at most 4,194,304 bytes" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("oracle", [(), ("--key", "id", "--oracle", "oracle.py:expect")])
def test_a_full_disk_is_named(tmp_path: Path, oracle: tuple[str, ...]) -> None:
    (tmp_path / "oracle.py").write_text(AS_IT_IS)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True
    ).returncode:
        pytest.skip("mount is not allowed here")
    try:
        orders = [{"id": n} for n in range(4_000)]
        sides = [write(tmp_path / name, orders) for name in ("in.jsonl", "out.jsonl")]
        done = subprocess.run(
            [sys.executable, "-m", "tickproof", "judge", *sides, "--identity", "id", *oracle],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=os.environ | {"TMPDIR": str(small)},
        )
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"kit-error: {small}: No space left on device: make room in the folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--identity: expected"),
        (("--identity", ""), "--identity: expected names between commas"),
        (("--identity", "id", "--types", "id=text"), "--types: expected COLUMN=TYPE"),
        (("--identity", "id", "--types", "id=integer"), "--types id: expected a column of a CSV"),
        (("--identity", "id", "--key", "nobody"), "--key nobody: IN has no such field"),
        (("--oracle", "oracle.py:expect"), "--oracle: expected together with --key"),
        (("--oracle", "oracle", "--key", "id"), "--oracle: expected FILE.py:FUNCTION; got oracle"),
        (("--oracle", "nothing.py:f", "--key", "id"), "nothing.py: it cannot be loaded"),
    ],
)
def test_wrong_usage_is_said(judge: Judge, tmp_path: Path, options: tuple, said: str) -> None:
    for name in ("in.jsonl", "out.jsonl"):
        write(tmp_path / name, ORDERS)
    status, out, err = judge("in.jsonl", "out.jsonl", *options)
    assert (status, out) == (2, "")
    assert said in err


def test_cells_of_csv_are_text_unless_types_say(judge: Judge, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", ORDERS)
    write(tmp_path / "out.csv", ORDERS)
    options = ("in.jsonl", "out.csv", "--identity", "id", "--key", "customer")
    status, _, err = judge(*options)
    assert status == 2 and "expected --types id=integer,cents=integer" in err
    status, out, _ = judge(*options, "--types", "id=integer,cents=integer")
    assert status == 0, out


def test_integers_beyond_floats_differ_by_one(tmp_path: Path) -> None:
    """A reader that takes them for floats sees no difference."""
    due = [{"id": n, "v": value} for n, value in enumerate((0.5, 2**53 + 1, 2**64 + 1))]
    got = [{"id": n, "v": value} for n, value in enumerate((0.5, 2**53, 2**64))]
    one = found(tmp_path, due, got, BY_ID)
    assert [each.identity for each in one.differences] == ["1", "2"]


def test_the_document_has_what_the_terminal_shows(judge: Judge, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", ORDERS)
    write(tmp_path / "out.jsonl", [ORDERS[0], *ORDERS])
    status, out, _ = judge("in.jsonl", "out.jsonl", "--identity", "id", "--json")
    document = json.loads(out)
    assert (status, document["exit_status"], document["verdict"]) == (1, 1, "fail")
    (failed,) = [one for one in document["requirements"] if one["verdict"] == "fail"]
    assert failed["id"] == "JB-TWICE"
    assert [one["records"] for one in document["recordings"]] == [200, 201]
