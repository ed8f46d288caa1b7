"""Sessions of the kit as users start them: the command line, in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests import modest_engine
from tests.file_scheduler import FileScheduler, rank
from tests.long import ASKED
from tests.warm import Warm
from tickproof import conformance
from tickproof.conformance.cli.main import main
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.resources import fixtures

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Nothing but the page: no look at the network, no profile of the user.
BROWSER_ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# A machine may stand still for a moment: that is no failure.
settings.register_profile("tickproof", deadline=None, max_examples=100 if ASKED else 25)
settings.load_profile("tickproof")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of `pytest_collection_modifyitems`, and Ctrl-C, wherever tests are run."""
    config.option.loadscopereorder = False
    # A shell lets what it starts in the background ignore Ctrl-C, and so all that is started below.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Load the tests with less of the processor, and walk through none of them later."""
    with loading():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow files first."""
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread the tests by file."""
    return FileScheduler(config, log)


#: No session of these tests may take longer, on any machine.
DEADLINE_S = 300.0
ROGUES = fixtures() / "rogues"
WARM = Warm()


@dataclass(frozen=True)
class Done:
    """An ended command: its status, what it printed, its reports by name of the engine."""

    status: int
    out: str
    err: str
    reports: dict[str, dict[str, Any]]

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Results by requirement, of the only engine."""
        (name,) = self.reports
        return self.results_of(name)

    def results_of(self, engine: str) -> dict[str, dict[str, Any]]:
        """Results by requirement."""
        return {row["id"]: row for row in self.reports[engine]["requirements"]}


class Sessions:
    """Starts ``tickproof`` in an empty folder; knows every process and run of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        #: Leaders of the process groups of all commands so far.
        self._leaders: set[int] = set()

    def rogue(self, name: str, *, startup: float = 20, drain: float = 20) -> Path:
        """Write an engine.toml for a class of data_rogue.py or a function of rogue.py."""
        script = "data_rogue.py" if name[0].isupper() else "rogue.py"
        return self.toml(name, ["{python}", str(ROGUES / script), name], startup, drain)

    def toml(self, name: str, argv: list[str], startup: float = 20, drain: float = 20) -> Path:
        """Write an engine.toml that claims passthrough and nothing else."""
        folder = self.folder / "engines" / str(len(list(self.folder.glob("engines/*"))))
        folder.mkdir(parents=True)
        path = folder / "engine.toml"
        limits = {"startup_timeout_s": startup, "drain_timeout_s": drain}
        path.write_text(modest_engine.toml(name, argv, language="python", **limits))
        return path

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start ``tickproof`` in a process group of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tickproof.conformance.cli.main", *map(str, arguments)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            start_new_session=True,
            **({"stdout": subprocess.PIPE} | options),
        )
        self._started.append(process)
        self._leaders.add(process.pid)
        return process

    @staticmethod
    def _environment() -> dict[str, str]:
        path = [str(Path(conformance.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "CI": "1"}

    def ended(self, process: subprocess.Popen[str]) -> Done:
        """Wait for the end of a started command."""
        out, err = process.communicate(timeout=DEADLINE_S)
        return self._done(process.returncode, out, err)

    def _done(self, status: int, out: str, err: str) -> Done:
        reports = [json.loads(p.read_text()) for p in self.folder.glob("*/*/report.json")]
        by_name = {report["engine"]["name"]: report for report in reports}
        return Done(status, out, err, by_name)

    def tickproof(self, *arguments: object, **options: Any) -> Done:
        """Run a command to its end: without options, in a process that has it loaded."""
        if options:
            return self.ended(self.start(*arguments, **options))
        words = [str(word) for word in arguments]
        ended = WARM.run(words, self.folder, self._environment(), DEADLINE_S)
        self._leaders.add(ended.pid)
        return self._done(ended.status, ended.out, ended.err)

    def judge(self, engines: list[Path], *only: str, workers: int = 1) -> Done:
        """Judge engines on some requirements."""
        words = ("--only", ",".join(only), "--seed", 1, "--secret", 0, "--out", "out")
        return self.tickproof("run", *engines, *words, "-n", workers)

    def runs(self) -> list[Path]:
        """Return the run folders of all sessions so far."""
        return sorted(path.parent for path in self.folder.glob("**/run.json"))

    def processes(self) -> list[psutil.Process]:
        """Return every living process of the sessions: by ancestry, group and run id."""
        ids = {json.loads((run / "run.json").read_text())["id"] for run in self.runs()}
        return [p for p in psutil.process_iter() if self._belongs(p, ids, self._leaders)]

    @staticmethod
    def _belongs(process: psutil.Process, ids: set[str], groups: set[int]) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            if groups & {process.pid, os.getsid(process.pid)}:
                return True
            return process.environ().get("TICKPROOF_RUN") in ids
        except (psutil.Error, ProcessLookupError):
            return False

    def close(self) -> None:
        """Expect that nothing is left; end what is."""
        # The resource tracker of multiprocessing ends a moment after the process it served.
        wait_until(lambda: not self.processes(), 5)
        left = self.processes()
        for process in left:
            process.kill()
        for started in self._started:
            started.wait()
            if started.stdout:
                started.stdout.close()
            started.stderr.close()
        assert left == []


def wait_until(condition: Callable[[], Any], timeout_s: float = 30.0) -> bool:
    """Wait for a condition, up to a deadline; return whether it was met."""
    deadline = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(met)


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., bool]:
    return wait_until


@pytest.fixture(scope="session")
def session_type() -> type[Sessions]:
    """Give the class, for fixtures that keep a session's folder."""
    return Sessions


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    """Give the command line; afterwards no process of it may live."""
    made = Sessions(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium of the system: one for all, for a process can have no second one."""
    api = pytest.importorskip("playwright.sync_api", reason="the extra browser is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found, args=list(BROWSER_ARGUMENTS), chromium_sandbox=os.geteuid() != 0
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page_of(browser: Any) -> Any:
    """Open a file, and expect that the browser has nothing to say about it.

    beside: files beside it that it may load.
    """

    @contextlib.contextmanager
    def opened(path: Path, beside: Sequence[str] = (), **settings: Any) -> Iterator[Any]:
        said: list[str] = []
        allowed = {one.resolve().as_uri() for one in (path, *map(path.with_name, beside))}
        context = browser.new_context(offline=True, **settings)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto(path.resolve().as_uri())
        try:
            yield page
        finally:
            context.close()
        assert {one.partition("#")[0] for one in said} == allowed

    return opened


@pytest.fixture(scope="session")
def tickproof() -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command in this process: its status, all that it printed."""

    def run(*words: object) -> tuple[int, str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            with pytest.raises(SystemExit) as ended:
                main([str(word) for word in words])
        return int(ended.value.code or 0), printed.getvalue()

    return run
