"""The page beside a real session, in a real browser; metrics and the dashboard of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.long import LONG
from tickproof.conformance.report import live_page

pytest.importorskip("aiohttp", reason="the extra live is not installed")
pytest.importorskip("prometheus_client", reason="the extra live is not installed")

DASHBOARD = Path(live_page.__file__).with_name("grafana-dashboard.json")
SESSION = [
    {"t": 1, "event": "session-started", "engine": "<b>e</b> 1", "profile": "quick"},
    {"t": 2, "event": "run-started", "run": "r", "scenario": "count", "records": 10},
    {"t": 3, "event": "progress", "run": "r", "served": 5, "published": 9, "outputs": 4, "rss": 3},
    {"t": 3, "event": "fault", "run": "r", "do": "kill", "target": "worker", "served": 5},
    {"t": 3, "event": "decided", "requirement": "EO-X", "verdict": "fail", "reason": "lost",
     "said": "<img src=x onerror=alert(1)>"},
]  # fmt: skip


@pytest.fixture
def served(tmp_path):
    """The page of a session that goes on; its address, and its process."""
    (tmp_path / "live.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SESSION))
    process = subprocess.Popen(
        [sys.executable, "-m", "tickproof", "live", str(tmp_path), "--until-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def fetched(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read().decode()


def test_metrics_are_those_that_the_dashboard_shows(served):
    address, _ = served
    text = fetched(f"{address}metrics")
    known = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    assert 'tickproof_records_served_total{engine="<b>e</b> 1"} 5.0' in text
    assert 'tickproof_backlog_records{engine="<b>e</b> 1"} 4.0' in text
    assert re.search(r'tickproof_faults_total\{do="kill".*target="worker"\} 1.0', text)
    assert 'tickproof_requirements{engine="<b>e</b> 1",verdict="fail"} 1.0' in text
    board = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"tickproof_\w+", target["expr"])
    }
    assert asked
    assert asked <= known
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_another_host_name_is_refused(served):
    address, _ = served
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(address, Host="evil.example:80")
    assert refused.value.code == 403


def test_it_ends_with_the_kit(served):
    address, process = served
    assert "no session yet" in fetched(address)
    process.stdin.close()
    assert process.wait(20) == 0


def test_text_of_an_engine_is_text(served, browser):
    address, process = served
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(address)
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    assert page.locator("#engine").text_content() == "<b>e</b> 1"
    assert page.locator("img").count() == 0
    assert page.locator("#runs tr").count() == 1
    process.stdin.close()
    process.wait(20)
    assert page.locator("#runs tr").count() == 1, "the page stays when the kit has ended"
    page.close()
    assert [one for one in said if "ERR_CONNECTION_REFUSED" not in one] == []


def test_a_session_is_followed_to_its_end(tmp_path, browser):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tickproof",
            "run",
            "single",
            "--live",
            "--seed",
            "5",
            "--only",
            "EO-ENGINE-DEATH,ST-TOTALS",
            "--out",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = next(m[0] for line in process.stdout if (m := re.search(r"http://\S+", line)))
        page = browser.new_page()
        page.goto(address)
        page.get_by_text("SIGKILL engine").first.wait_for(timeout=60_000)
        page.get_by_text("ended after").wait_for(timeout=60_000)
        assert page.locator("#verdicts tr").count() == 2
        assert "pass" in page.locator("#verdict").text_content()
        page.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    port = int(address.rstrip("/").rpartition(":")[2])
    assert not [
        one
        for one in psutil.net_connections("tcp")
        if one.status == "LISTEN" and one.laddr.port == port
    ]


@LONG
def test_a_port_that_is_taken_is_said(served, tmp_path):
    address, _ = served
    port = address.rstrip("/").rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", "live", str(tmp_path), "--port", port],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert f"--port: {port}" in done.stderr
    assert "Traceback" not in done.stderr
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tickproof",
            "run",
            "miniature",
            "--live",
            "--live-port",
            port,
            "--only",
            "ST-TOTALS",
            "--out",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert "--live: the page did not start" in run.stderr
