"""`tickproof host`, in processes of its own, on the machine that the tests run on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.long import few
from tests.machine import needs, no_other_user

CORE = min(os.sched_getaffinity(0))
SHOW = (
    "import os, json; print(json.dumps([sorted(os.sched_getaffinity(0)), "
    "os.sched_getscheduler(0), os.sched_getparam(0).sched_priority]))"
)


def tickproof(*arguments: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tickproof.conformance.cli.main", "host", *arguments]
    environment = os.environ | {"COLUMNS": "80", "TERM": "dumb"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment, **options
    )


def test_check_says_by_its_status_what_it_found():
    done = tickproof("check", "--json")
    readings = json.loads(done.stdout)["readings"]
    statuses = {reading["status"] for reading in readings}
    expected = 1 if "NOT_OK" in statuses else 3 if "UNOBSERVABLE" in statuses else 0
    assert (done.returncode, done.stderr) == (expected, "")
    assert len(readings) == 27


def test_check_fits_80_columns_and_names_every_probe():
    done = tickproof("check", "--level", "p0")
    head, _, rest = done.stdout.partition("\n\n")
    assert max(map(len, head.splitlines())) <= 80
    for probe in ("cpu-quota", "real-time-throttling", "clock-source"):
        assert f"\n{probe} " in head
    assert "P1" not in head
    assert rest.splitlines()[-1].endswith((" OK", " NOT_OK", " UNOBSERVABLE"))


def test_plan_ends_well_and_is_json_on_request():
    done = tickproof("plan")
    assert done.returncode == 0
    assert done.stdout.startswith("cores: ")
    made = json.loads(tickproof("plan", "--kit", "1", "--json").stdout)
    assert len(made["cores"]["kit"]) >= 1
    assert {"by_hand", "by_tool", "start", "impossible"} <= made.keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    few(
        [
            (["check", "--level", "P3"], "'P3' is not one of"),
            (["plan", "--engine", "60000"], "60000 for the engine asked for"),
            (["pin", "--cores", "60000", "--", "true"], "--cores: not present: 60000; online are"),
            (["pin", "--cores", "1-", "--", "true"], "--cores: expected a list such as 0-3,8"),
            (["pin", "--policy", "fifo", "--priority", "0", "--", "true"], "expected 1 to 99"),
            (["pin", "--policy", "rr", "--priority", "100", "--", "true"], "expected 1 to 99"),
            (["pin", "--policy", "fifo", "--", "true"], "expected 1 to 99 with --policy fifo"),
            (["pin", "--priority", "5", "--", "true"], "expected only with --policy"),
            (
                ["pin", "--cores", "0", "--", "no-such-program"],
                "no-such-program: expected a program",
            ),
            (["pin", "--", "true"], "expected some of --cores"),
            (["pin", "--cores", "0"], "Missing argument"),
        ],
        4,
    ),
)
def test_wrong_usage_ends_with_2_and_a_clear_text(arguments, said):
    done = tickproof(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_starts_nothing(tmp_path):
    made = tmp_path / "made"
    command = ["--", "touch", str(made)]
    assert tickproof("pin", "--cores", "60000", *command).returncode == 2
    assert not made.exists()
    assert tickproof("pin", "--cores", str(CORE), *command).returncode == 0
    assert made.exists()


def test_pin_sets_the_cores_and_gives_the_status_of_the_command():
    code = f"{SHOW}; raise SystemExit(7)"
    done = tickproof("pin", "--cores", str(CORE), "--", sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (7, "")
    assert json.loads(done.stdout)[0] == [CORE]


def test_pin_is_replaced_by_the_command():
    done = tickproof("pin", "--cores", str(CORE), "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == -9


def test_pin_leaves_no_signal_ignored():
    # A writer whose reader has gone has to end, as it does without the wrapper.
    done = tickproof("pin", "--cores", str(CORE), "--", "grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert [s.name for s in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (s - 1) & 1] == []


def test_pin_sets_a_policy_or_says_why_not():
    done = tickproof("pin", "--policy", "rr", "--priority", "3", "--", sys.executable, "-c", SHOW)
    _, policy, priority = json.loads(done.stdout)
    if policy == os.SCHED_RR:
        assert (priority, done.stderr) == (3, "")
    else:
        assert "not set: policy rr 3: " in done.stderr
        assert "rtprio limit" in done.stderr


def test_pin_says_what_a_lock_is_worth():
    done = tickproof("pin", "--lock", "--", "true")
    assert done.returncode == 0
    assert "the command has to call mlockall itself" in done.stderr


@needs(no_other_user())
def test_pin_without_rights_says_so_and_strict_starts_nothing():
    # A process that gave its rights away; the same interpreter and files as before.
    drop = (
        "import os, resource, sys; from tickproof.conformance.cli.main import main;"
        "resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0));"
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536));"
        "from tickproof.conformance.cli import host;"
        "from tickproof.conformance.hosts import pin, table;"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); main(sys.argv[1:])"
    )
    wishes = ["--cores", str(CORE), "--policy", "fifo", "--priority", "9", "--lock"]
    for strict, status, printed in ((["--strict"], 2, ""), ([], 0, "started\n")):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                drop,
                "host",
                "pin",
                *wishes,
                *strict,
                "--",
                "/bin/echo",
                "started",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stdout) == (status, printed), done.stderr
        assert "not set: policy fifo 9: Operation not permitted" in done.stderr
        assert "not set: limit of locked memory: stays at the hard limit of 65536" in done.stderr
        assert ("echo was not started" in done.stderr) == bool(strict)
