"""One run of a job: topics, proxy, workers, faults at their moments, the end, the output."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import signal
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.security import Access
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.fault_steps import GRACE_S
from tickproof.conformance.history.job_run import (
    END_LEADER,
    KILL_BROKER,
    OF_BROKERS,
    REPLACES,
    Fired,
    Strike,
    changes,
)
from tickproof.conformance.jobs import checkpoint, ledger, postgres_proxy
from tickproof.conformance.jobs.declaration import POSTGRESQL, Job
from tickproof.conformance.jobs.file_sink import FilesSink
from tickproof.conformance.jobs.ledger import HttpSink, Ledger
from tickproof.conformance.jobs.postgres import JOB, Postgres
from tickproof.conformance.jobs.postgres_proxy import PostgresProxy
from tickproof.conformance.jobs.reads import End, Read, Reads
from tickproof.conformance.jobs.records import Record
from tickproof.conformance.jobs.registry import Registry
from tickproof.conformance.jobs.sinks import (
    BadOutput,
    Row,
    Sink,
    SqliteSink,
    SqlSink,
    TopicSink,
    dead_letter,
    reader,
)
from tickproof.conformance.jobs.workers import JobSpec
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker, BrokerAddress
from tickproof.conformance.kafka.broker_settings import REPLICAS
from tickproof.conformance.kafka.cluster import LIMIT_S, Cluster, client_library
from tickproof.conformance.kafka.entrance import entrance
from tickproof.conformance.kafka.input_writer import InputWriter
from tickproof.conformance.kafka.names import collides
from tickproof.conformance.kafka.own_brokers import OwnBrokers
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.kafka.wire import Api
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.text import counted, error_line, shown
from tickproof.conformance.usage.pulse import Pulse
from tickproof.conformance.usage.socket_holders import holders

#: What sessions and transactions are lowered to.
SESSION_MS, TRANSACTION_MS = 6_000, 10_000
#: Where a worker is paused, a transaction outlives its session by more: another worker has to
#: notice, and to take over, before the paused one ends what it has open.
OUTLIVING_MS: Final = 15_000
#: What a dead job has prepared its next life has to commit before it times out, where it is sound
#: by that as Flink is: so many starts of it fit in.
_STARTS: Final = 5
#: A strike that no output of the job is under way for is tried so often.
MOST_TRIES: Final = 4
#: After the end of a run was seen, so long nothing may move.
_SETTLE_S: Final = 1.5
#: After input was read again: somebody who was taken for dead may give its output a second time.
_AGAIN_S: Final = 3.0
#: Silence that ends a run of which no calm run has told how long its silences are.
_FIRST_SILENCE_S: Final = 10.0
_SHORTEST_SILENCE_S: Final = 5.0
#: The same of a member of a group that has not committed yet: Kafka Streams does so each 30 s.
_FIRST_COMMIT_S: Final = 35.0
#: The same where a run without faults had another end than silence.
_WITHOUT_END_S: Final = 20.0
_TICK_S, _LOOK_S, _ASK_S = 0.005, 0.0005, 0.3
#: Ends of a run by which the job itself says that it has handled all input.
_COMMITTED, _SETTLED = "committed offsets", "settled"
#: The end of a run by which nobody says that: how it begins, before its length.
SILENCE: Final = "a silence"
_TERM_S: Final = 10.0
#: From SIGTERM until what a job has under way is answered: a JVM starts its hooks meanwhile.
_HANDLERS_S: Final = 0.3
#: Topics take messages of any time, and do not begin a segment for each.
_ANY_TIME: Final = {"message.timestamp.after.max.ms": str(2**63 - 1), "segment.ms": str(2**63 - 1)}
#: What an answer waits while answers are late.
LAG_S: Final = 1.0
#: What a busy machine may add to a recovery.
_BUSY_S: Final = 10.0
_ANSWER_S: Final = 10.0
#: So long before, or after, a transaction times out a paused worker goes on.
_NEAR_END_S: Final = 1.2
#: So long a new owner that waits for it is left to wait.
_WAITS_S: Final = 3.0
#: What part of the input before a strike comes until others have taken over, or shared it out.
_FIRST: Final = 0.25
#: So long a new owner is given input before another owner comes.
_OWNS_S: Final = 2.0
#: So long a worker that has joined again may take to learn where it begins.
_BEGINS_S: Final = 1.0
#: So long a transaction may take until it has offsets.
_ERROR_S: Final = 10.0
_MOST_STARTS: Final = 3
#: How many lives of a job have to stop at a record that it claims to stop at: many a job gives a
#: message up after three attempts, or five.
_STOPS: Final = 6
_STATUS: Final = "status"
#: What a run is judged by and does not keep.
_NOT_WRITTEN: Final = ("rows", "request_keys", "ends", "reads")
#: Limit for the broker to take what has been sent.
_FLUSH_S: Final = 30.0
_MOST_NAMES: Final = 5
_ENDED: Final = re.compile(r"supervisor: worker (\d+) ended with (-?\d+)")


#: One is open in a database, or files are being written; one that was open is over.
IN_DATABASE: Final = ("transaction", "transaction-over")
#: The job has handled what it was given, and stands still for this long at least.
IDLE: Final = "idle"
_IDLE_S: Final = 3.0
#: What is open for so long may stay so: files that are written without a pause.
_OPEN_S: Final = 1.0


@dataclass
class Run:
    """What one run of a job gave; rows by output."""

    name: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    fired: list[Fired] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    moments: Counter[str] = field(default_factory=Counter)
    exits: list[str] = field(default_factory=list)
    timeouts: dict[str, str] = field(default_factory=dict)
    startup_s: float = 0.0
    silence_s: float = 0.0
    uncommitted_s: float = 0.0
    seconds: float = 0.0
    #: Processors that this machine kept busy on the average, with whatever, from the start.
    busy: float = 0.0
    ended: str = ""
    failure: str = ""
    #: It stood still with input left, though a run without faults says when it is done.
    stalled: bool = False
    #: It was still at work when its time was over: what it lacks says nothing.
    unfinished: bool = False
    #: It did not stop at a poisoned record, in each of its lives, as it claims.
    unstopped: bool = False
    stderr: list[str] = field(default_factory=list)
    #: What the job calls its own on the broker, and another run would call the same.
    shared_names: list[str] = field(default_factory=list)
    #: Where a record was that the job cannot read, "" for none.
    poison: str = ""
    #: Another number of workers, or of partitions of an input, than the job declares, 0 for that.
    workers: int = 0
    partitions: int = 0
    #: All input came again behind itself.
    twice: bool = False
    #: How long the job took to go on after each death of the whole of it, in seconds.
    recoveries_s: list[float] = field(default_factory=list)
    #: How often offsets were given to a transaction of Kafka, before its records or after them.
    joined: int = 0
    #: How many records `settled` or the checkpoint said last were handled, and of how many.
    settled: tuple[int, int] | None = None
    #: How many faults were to come.
    asked: int = 0
    #: Which key of a request came with two bodies, "" for none.
    reused_key: str = ""
    #: Of each output over HTTP: keys of requests by the identity of their rows.
    request_keys: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    #: The same as `exits`, with when each was seen.
    ends: list[End] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)

    @property
    def last_said(self) -> str:
        """The last that the job wrote on its standard error."""
        return self.stderr[0] if self.stderr else "nothing"

    @property
    def changed(self) -> list[str]:
        """What `changes` says of it."""
        return changes(self.poison, self.workers, self.partitions, self.twice)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict, without the rows."""
        fired = [asdict(one) for one in self.fired]
        found = vars(self) | {"moments": dict(self.moments), "fired": fired}
        return {name: one for name, one in found.items() if name not in _NOT_WRITTEN}


@dataclass(frozen=True)
class Plan:
    """How a run is played. first: all input is there before the start.

    silence_s, uncommitted_s: the longest silence of calm runs, and their longest time without
    a commit; 0 in the first. complete: says of all rows whether they are all that is due. tells:
    how a run without faults ended, "" for silence. short: by what share of itself the input
    that comes before a strike is less than so many whole parts.
    """

    name: str
    tells: str = ""
    strikes: Sequence[Strike] = ()
    first: bool = False
    silence_s: float = 0.0
    uncommitted_s: float = 0.0
    startup_s: float = 0.0
    short: float = 0.0
    complete: Callable[[dict[str, list[Row]]], bool] | None = None
    #: Its input has a record that the job cannot read.
    poisoned: str = ""
    #: See Run.
    workers: int = 0
    partitions: int = 0
    twice: bool = False
    #: It has a broker of its own, as the job has names that another run would use, too.
    alone: bool = False


class Trial:
    """One run; `play` it once."""

    #: Files of output that were committed when they were last looked at.
    _commits: frozenset[tuple[int, str]] | None = None
    #: The worker that was down, and the last connection before.
    _was_down = ""
    #: Numbers of the last connections that were open as a worker went down: of Kafka, and, counted
    #: downwards, of what is beside it.
    _last_before_down = (-1, 0)
    #: What part of the input before the next strike comes while one lasts.
    _meanwhile = 0.0
    #: The transactions that are open in databases, and since when, by time.monotonic.
    _open, _open_since = frozenset[str](), 0.0
    #: Where the job stood as a strike was given up; nowhere before the first.
    _given_up_at: object = ()
    #: Since when workers are given time to share the input; 0.0: they have shared it, or had time.
    _balancing_since: float = 0.0
    #: What the job's Kafka clients need beside an address, None if all is plaintext.
    _access: Access | None = None

    def __init__(
        self,
        job: Job,
        inputs: dict[str, list[Record]],
        plan: Plan,
        folder: Path,
        level: Level,
        stopped: threading.Event,
        tell: Callable[..., None] = lambda _event, **_facts: None,
    ) -> None:
        self._tell = tell
        self._job, self._inputs, self._plan, self._folder = job, inputs, plan, folder
        self._level = level
        #: Set when the session has ended before its time.
        self._stopped = stopped
        self.run = Run(
            plan.name,
            poison=plan.poisoned,
            workers=plan.workers,
            partitions=plan.partitions,
            twice=plan.twice,
            asked=len(plan.strikes),
        )
        self._id = uuid.uuid4().hex
        self._group = job.table.group or f"tickproof-{self._id[:12]}"
        self._lock = threading.Lock()
        #: What a strike replaces the job by.
        self._versions = {"downgrade": job}
        if job.upgrade is not None:
            self._versions["upgrade"] = job.upgraded()
        self._pending = deque(plan.strikes)
        self._tries, self._seen = 0, 0
        self._shared_at = 0.0
        self._due: deque[tuple[Strike, int, Future[bool]]] = deque()
        self._striking = False
        self._uses: dict[int, ConnectionUse] = {}
        self._over = threading.Event()
        self._sent = 0
        self._topics = {self._topic(name) for name in inputs}
        queues = [[(name, one) for one in records] for name, records in inputs.items()]
        order = [one for some in _in_turn(queues) for one in some]
        #: Index of a record at which the job has yet to stop, twice; what waits until it has.
        self._stops_at: int | None = None
        self._held_back: list[tuple[str, Record]] = []
        if plan.poisoned and job.claims.poison == "stop":
            self._stops_at = next(n for n, (_, one) in enumerate(order) if not one.number)
            last = _last_beside(order, self._stops_at)
            order, self._held_back = order[:last], order[last:]
        self._set_input(order)
        self._fed_from = 0.0
        #: How many strikes' input was let in early, and the last standstill at which it was.
        self._more = self._stood_at = 0.0
        #: When the first half of the input was sent (time.monotonic), 0 before that.
        self._halved_at = 0.0
        #: Whether there was output, as far as anybody asked.
        self._gave = False
        #: Offsets that the job has committed: their sum, and whether they are all.
        self._released, self._committed = 0, False
        #: When they last changed (time.monotonic); before the first, when input began.
        self._released_at = 0.0
        self._struck_at = self._listed_at = 0.0
        #: Since when the whole job is dead, 0: it is not; and the last connection of that life.
        self._dead_since, self._last_use = 0.0, 0
        #: A version has been started and has done nothing yet: it is not struck before it has.
        self._unproven = False
        #: Ends of workers that the kit has caused and not yet seen, and own ends before those.
        self._ends_due = self._ends_before = 0
        self._listed: list[process_table.Proc] = []
        self._stderr_at = 0
        self._engine: Engine | None = None
        #: Of the time limits; it stands still while the machine keeps the job from running.
        self._clock = FairClock()
        self._position: tuple[Any, ...] | None = None
        #: The server that the kit has started for the run, and what stands before it.
        self._database: tuple[Postgres, PostgresProxy] | None = None
        self._ledger: Ledger | None = None
        self._registry: Registry | None = None
        self._broker: Broker | None = None
        self._brokers: OwnBrokers | None = None
        #: Numbers of connections to what is not Kafka.
        self._numbers = itertools.count(-1, -1)

    def _set_input(self, order: list[tuple[str, Record]]) -> None:
        """Take records, each with its input, as those that the job has to handle."""
        self._order, self._total = order, len(order)
        self._ends = Counter((self._topic(name), one.partition) for name, one in order)

    # -- its parts -------------------------------------------------------------------------

    def play(self) -> Run:
        """Play the run to its end; raises KitStopped, KafkaUnavailable, InvalidFile."""
        self._folder.mkdir(parents=True)
        began = self._t0 = time.monotonic()
        with contextlib.ExitStack() as stack:
            self._open_broker(stack)
            self._open_servers(stack)
            self._sinks = {n: self._sink(n) for n in self._job.outputs}
            for sink in self._sinks.values():
                stack.callback(sink.close)
            self._writer = InputWriter(self._cluster, {})
            self._watcher = _watcher(self._cluster.address, self._group)
            stack.callback(self._watcher.close)
            try:
                self._drive(stack)
            except EngineFailure as failure:
                if failure.code in (Code.MACHINE_BUSY, Code.TIME_LIMIT):
                    self.run.unfinished, self.run.ended = True, failure.message
                else:
                    self.run.failure = failure.message
            except BadOutput as error:
                self.run.failure = str(error)
            if not len(self._writer):
                self._writer.check()
            self._note_end()
        self.run.seconds = time.monotonic() - began
        return self.run

    def _open_broker(self, stack: contextlib.ExitStack) -> None:
        """Make the topics, and open the proxy before the broker."""
        address = self._address(stack)
        self._cluster = Cluster(address.kit)
        way_in = entrance(address, self._job.security)  # before the topics, see there
        self._access = way_in.access
        topics = {self._topic(n): t.partitions for n, t in self._job.inputs.items()}
        out = {n: t for n, t in self._job.outputs.items() if t.kind == "topic"}
        topics |= {self._out_topic(n): t.partitions for n, t in out.items()}
        self._cluster.create(topics, _ANY_TIME)
        stack.callback(self._cluster.delete, topics)
        streams = {self._topic(n): at for at, n in enumerate(self._inputs)}
        roles = Roles(streams, {self._out_topic(n) for n in out})
        self._proxy = Proxy(
            way_in.ports, roles, lambda *_, **__: None, self._observe, tls=way_in.tls
        )
        self._proxy.fetched = self._read
        stack.enter_context(self._proxy)
        self._proxy.greeted = self._greeted
        self._proxy.longest_ms = self._longest_ms()
        if self._broker is not None:
            self._brokers = OwnBrokers(self._broker, self._proxy, self._broker_away)
            stack.callback(self._brokers.close)

    def _read(self, stream: int, partition: int, first: int, end: int) -> None:
        name = list(self._inputs)[stream]
        self.run.reads.add(Read(time.monotonic() - self._t0, name, partition, first, end))

    def _open_servers(self, stack: contextlib.ExitStack) -> None:
        """Open what the job reaches beside the broker, and the folder of its state."""
        self._workspace = Workspace()
        stack.callback(self._workspace.remove)
        self._state = self._workspace.state_dir(self._id)
        if any(table.url == POSTGRESQL for table in self._job.outputs.values()):
            server = stack.enter_context(Postgres())
            proxy = PostgresProxy(server.socket, self._observe, self._numbers)
            self._database = server, stack.enter_context(proxy)
        if called := [n for n, table in self._job.outputs.items() if table.http]:
            made = Ledger(called, self._observe, self._numbers)
            self._ledger = stack.enter_context(made)
        if (schemas := self._job.schemas()) is not None:
            self._registry = stack.enter_context(Registry(schemas))

    def _longest_ms(self) -> dict[Api, int]:
        """Return the longest timeouts that the broker is told."""
        if self._job.table.keep_timeouts:
            return {}
        paused = any(strike.do == "pause" for strike in self._plan.strikes)
        transaction_ms = OUTLIVING_MS if paused else TRANSACTION_MS
        starts_ms = round(_STARTS * self._plan.startup_s * 1000)
        return {Api.JOIN_GROUP: SESSION_MS, Api.INIT_PRODUCER_ID: max(transaction_ms, starts_ms)}

    def _address(self, stack: contextlib.ExitStack) -> BrokerAddress:
        """Return the broker: one of its own where another run could use its names, or miss it."""
        fixed = [table.topic for table in self._job.inputs.values()]
        fixed += [table.topic for table in self._job.outputs.values()]
        killed = any(strike.do in OF_BROKERS for strike in self._plan.strikes)
        if self._job.table.group or any(fixed) or killed or self._plan.alone:
            several = any(strike.target == "leader" for strike in self._plan.strikes)
            self._broker = stack.enter_context(Broker(nodes=REPLICAS if several else 1))
            return self._broker.address
        return shared_broker.address()

    def _topic(self, name: str) -> str:
        return self._job.inputs[name].topic or f"{self._group}-{name}"

    def _out_topic(self, name: str) -> str:
        return self._job.outputs[name].topic or f"{self._group}-{name}"

    def _sink(self, name: str) -> Sink:
        table = self._job.outputs[name]
        if table.kind == "topic":
            dead = name == self._job.claims.dead_letter
            read = dead_letter if dead else reader(table, self._job.folder)
            if dead:
                table = table.model_copy(update={"identity": ["message"]})
            return TopicSink(table, self._out_topic(name), self._cluster, read)
        if table.kind == "files":
            return FilesSink(table, self._state, name)
        if table.kind == "http":
            assert self._ledger is not None
            return HttpSink(table, self._ledger, name)
        where, toml = f"outputs.{name}", self._job.path
        if file := table.sqlite_file(name):
            return SqliteSink(table, self._state / file, toml, where)
        if table.url == POSTGRESQL:
            assert self._database is not None
            server, proxy = self._database
            job_url = f"postgresql://{JOB}:{JOB}@127.0.0.1:{proxy.port}/{JOB}"
            return SqlSink(table, server.url, job_url, toml, where)
        url = table.url.replace("{state}", str(self._state))
        return SqlSink(table, url, url, toml, where)

    def _values(self) -> dict[str, str]:
        """Return what the placeholders of job.toml stand for."""
        bootstrap = f"127.0.0.1:{self._port}"
        values = {"bootstrap": bootstrap, "group": self._group, "state": str(self._state)}
        values |= {"rendered": str(self._workspace.cwd / "{worker}")}
        values |= {f"inputs.{name}": self._topic(name) for name in self._inputs}
        if self._access is not None:
            values |= self._access.values(self._workspace.tmp)
        if self._registry is not None:
            values["registry"] = self._registry.url
        if self._database is not None:
            port = self._database[1].port
            values |= {f"outputs.{name}.port": str(port) for name in self._job.outputs}
        for name, sink in self._sinks.items():
            values[f"outputs.{name}"] = sink.where
            if file := self._job.outputs[name].sqlite_file(name):
                values[f"outputs.{name}.file"] = str(self._state / file)
        return values

    @property
    def _port(self) -> int:
        """Where the job reaches its broker."""
        return self._job.table.listen or self._proxy.port

    # -- the run ---------------------------------------------------------------------------

    def _drive(self, stack: contextlib.ExitStack) -> None:
        if self._plan.first:
            self._feed(self._total)
            self._writer.flush(_FLUSH_S)
        self._start(stack)
        self._moved_at = time.monotonic()
        stack.callback(self._note_busy, time.monotonic(), _busy_s())
        asked_at, looked_at = 0.0, 0.0
        began, limit_s = time.monotonic(), self._job.table.run_timeout_s
        while True:
            now = time.monotonic()
            self._check()
            if self._due:
                self._strike(*self._due.popleft())
            elif self._pending and self._pending[0].at in ("", IDLE, *IN_DATABASE):
                self._look()
            self._feed(self._allowed(now))
            for sink in self._sinks.values():
                sink.take()
            if now - asked_at > _ASK_S:
                asked_at = now
                self._ask_offsets()
                self._move(now)
                self._tell("progress", **self._counts())
                self._look_for_balance()
                self._let_more_in()
                self._note_exits()
                self._look_for_stops()
            if self._clock.overdue(began, limit_s, "a run is not over", moves=False):
                self.run.ended = f"its limit of {limit_s:g} s"
                self.run.stalled = self._all_sent() and self._quiet_s > self._silence_limit_s()
                if self._repeats(limit_s):
                    idle_s = self._clock.fair_s(self._released_at)
                    self.run.stalled = True
                    self.run.ended += f", without a commit of offsets for {idle_s:.0f} s"
                self.run.unfinished = not self.run.stalled
                return
            # As long as a strike is pending, the rest of the input waits for it.
            if now - looked_at > _ASK_S and (self._all_sent() or self._pending):
                looked_at = now
                ended = self._end(now)
                if ended and (self._settled or ended.startswith(SILENCE)):
                    self.run.ended = ended
                    self.run.stalled = self._gave_up(ended)
                    self.run.unstopped = self._stops_at is not None
                    return
            watching = self._pending and self._pending[0].at in IN_DATABASE
            self._over.wait(_LOOK_S if watching else _TICK_S)

    def _start(self, stack: contextlib.ExitStack) -> None:
        isolation = Isolation(self._level, hidden=(self._folder.resolve(),))
        engine = self._engine = Engine(
            JobSpec(self._job, self._values()),
            self._id,
            self._folder / "stderr.log",
            lambda *_: None,
            self._workspace,
            isolation=isolation,
            clock=self._clock,
            access=self._access,
        )
        stack.callback(self._end_engine)
        stack.enter_context(Pulse(self._clock, self._moves, self._living))
        limit_s = self._job.table.startup_timeout_s
        proxies: list[Proxy | PostgresProxy | Ledger | Registry] = [self._proxy, *self._beside]
        proxies += [self._registry] if self._registry else []  # no fault meets it
        others = [proxy.port for proxy in proxies[1:]]
        engine.start((), [self._port, *others])
        engine.request("hello", limit_s, protocol=1)
        self._state = engine.workspace.state_dir(self._id)
        isolation.prepare(engine.workspace)
        for proxy, listener in zip(proxies, engine.listeners, strict=bool(engine.listeners)):
            proxy.listen_on(listener.dup())
        values = self._values()
        most = max(version.workers for version in self._versions.values())
        for worker in range(most):
            own = self._workspace.cwd / str(worker)
            filled = self._job.rendered(values | {"worker": str(worker), "rendered": str(own)})
            for name, text in filled.items():
                made = own / name
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(text, "utf-8")
        outputs = next(iter(self._sinks.values())).where
        data = {
            "host": "127.0.0.1",
            "port": self._port,
            "inputs": [self._topic(name) for name in self._inputs],
            "output": outputs,
            "group": self._group,
            "env": self._job.environment(values),
            "cwd": str(self._job.folder),
        }
        self._started_at = time.monotonic()
        engine.request(
            "deploy",
            limit_s,
            app="job",
            workers=self._job.workers,
            params={},
            state_dir=str(self._state),
            data=data,
        )

    def _end_engine(self) -> None:
        self._over.set()
        while self._due:
            self._due.popleft()[2].set_result(False)
        self._engine_now.end()

    @property
    def _beside(self) -> list[PostgresProxy | Ledger]:
        """What the job reaches beside the broker, and the kit can cut off."""
        found: list[PostgresProxy | Ledger] = list((self._database or ())[1:])
        return [*found, self._ledger] if self._ledger else found

    def _check(self) -> None:
        """Raise EngineFailure for a job that is gone, KitStopped for a proxy or broker that is."""
        if self._stopped.is_set():
            raise KitStopped(f"{self.run.name}: the session has ended")
        if self._proxy.failure is not None:
            raise KitStopped(f"the proxy stopped: {self._proxy.failure!r}")
        if self._database is not None:
            server, proxy = self._database
            if server.returncode is not None or proxy.failure is not None:
                why = f"status {server.returncode}, proxy: {proxy.failure!r}"
                raise KitStopped(f"PostgreSQL, or the proxy before it, stopped: {why}")
        if self._engine_now.returncode is not None:
            raise EngineFailure(Code.EXITED, "the job cannot start: " + self._last_words())
        if self._unproven and len(self.run.exits) >= self._ends_before + _MOST_STARTS:
            version = "next version" if self.run.fired[-1].do == "upgrade" else "version before"
            said = f"the {version} ends by itself, {_MOST_STARTS} times, before it does anything: "
            raise EngineFailure(Code.EXITED, said + self._last_words())
        count = len(self.run.exits) - self._ends_before
        if count >= _MOST_STARTS and self._plan.poisoned and self._stops_at is None:
            gone = self._ends_before  # it has stopped as it claims
            where = "though the poisoned record is gone" if gone else "at the poisoned record"
            said = f"the job ends by itself, {count} times, {where}: "
            raise EngineFailure(Code.EXITED, said + self._last_words())
        if len(self.run.exits) >= _MOST_STARTS and not self._proxy.traffic.fetched:
            raise EngineFailure(
                Code.EXITED, "the job ends by itself before it reads: " + self._last_words()
            )

    def _moves(self) -> tuple[int, ...]:
        """Return counts that change as the job makes progress."""
        traffic = self._proxy.traffic
        with self._lock:  # a moment that is new changes the size
            return traffic.fetched, traffic.taken, traffic.commits, self.run.moments.total()

    def _last_words(self) -> str:
        """Return the last line of the job's own standard error; of a trace, the error."""
        with contextlib.suppress(OSError):
            text = (self._folder / "stderr.log").read_text("utf-8", "backslashreplace")
            own = [line for line in text.splitlines() if line.strip() and "supervisor:" not in line]
            if own:
                frame = own[-1][0].isspace()
                return shown((frame and error_line(own)) or own[-1], 300)
        return "it said nothing"

    # -- input -----------------------------------------------------------------------------

    def _allowed(self, now: float) -> int:
        """Return how many records are due: by the rate, and by the strikes that still come."""
        limit_s = self._job.table.startup_timeout_s
        moments = self.run.moments
        # Spark asks where a topic ends, and fetches only what is there.
        ends_asked = self._proxy.traffic.requests[Api.LIST_OFFSETS]
        reads = moments["fetched"] or moments["fetched-nothing"] or ends_asked
        passed_s = self._clock.fair_s(self._started_at)
        if not self._fed_from and (reads or passed_s > limit_s):
            self.run.startup_s = passed_s
            # Nothing could come before there was input.
            self._fed_from = self._moved_at = self._released_at = now
            self._let_balance(now)
        since = now - self._fed_from if self._fed_from else 0.0
        rate = sum(table.rate for table in self._job.inputs.values())
        # What is left alone while a strike lasts must not have all that the next one waits for.
        begun = self._meanwhile if self._striking else _FIRST if self._balancing_since else 1.0
        most = self._share(begun + self._more) if self._pending else 1.0
        if self._plan.workers and not self._more:
            most = 0.5  # one that starts late has to meet input, too
        return min(int(since * rate), int(self._total * most))

    def _share(self, parts: float) -> float:
        """Return what share of the input comes before the next strike.

        parts: of those into which strikes cut the input, beside what came before the last one.
        """
        strikes = len(self._plan.strikes)
        share = (strikes - len(self._pending) + parts) / (strikes + 1)
        return share * (1 - self._plan.short) if share < 1 else 1.0

    def _counts(self) -> dict[str, int]:
        """Return how far the run is, as a live view shows it."""
        traffic = self._proxy.traffic
        return {
            "records": self._total,
            "published": self._sent,
            "served": min(traffic.fetched, self._total),
            "outputs": traffic.taken,
            "released": self._released,
        }

    def _let_more_in(self) -> None:
        """Allow more input, once for each time that the job stands still as a strike is to come.

        It may have handled all that was allowed, in fewer steps than the moment needs. For another
        number of workers the rest comes once as much time has passed since the first half.
        """
        still_s = self._still_s
        if self._plan.workers and not self._more and self._sent >= self._total // 2:
            # Who commits by a timer never stands still.
            self._halved_at = self._halved_at or time.monotonic()
            if self._clock.fair_s(self._halved_at) > still_s:
                self._more = 1.0
        ready = self._pending and self._fed_from and not self._balancing_since
        waits = ready and self._stood_at != self._moved_at
        if waits and self._quiet_s > still_s:
            self._stood_at = self._moved_at
            self._more += 0.25

    def _feed(self, until: int) -> None:
        """Send records up to a number, those of several inputs in turn."""
        while self._sent < until:
            self._send(*self._order[self._sent])
            self._sent += 1
        self._writer.serve()

    def _send(self, name: str, record: Record) -> None:
        place, key = (self._topic(name), record.partition), record.key.encode()
        while not self._writer.send(*place, key, record.message, record.time_ms or 0):
            self._writer.serve(0.1)

    def _feed_for(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Let time pass in which input goes on, for those that a fault leaves at work.

        enough: is asked again and again, and says that it is over before.
        """
        until = time.monotonic() + seconds
        while not (self._over.is_set() or enough()) and (now := time.monotonic()) < until:
            self._feed(self._allowed(now))
            self._over.wait(_TICK_S)

    def _all_sent(self) -> bool:
        return self._sent == self._total and not len(self._writer)

    # -- a record at which the job stops -----------------------------------------------------

    def _look_for_stops(self) -> None:
        """Take the poisoned record away once the job has stopped at it in so many lives.

        Raises EngineFailure if it has ended in another way.
        """
        ends = self.run.exits
        if self._stops_at is None or not ends:
            return
        if self._sent <= self._stops_at:
            said = "the job ends by itself before the poisoned record was sent: "
            raise EngineFailure(Code.EXITED, said + self._last_words())
        if any(one.endswith(f"{_STATUS} 0") for one in ends):
            said = "the job ended at the poisoned record with status 0, as one that is done"
            raise EngineFailure(Code.EXITED, said)
        if len(ends) >= _STOPS:
            self._take_poison_away(self._stops_at)

    def _take_poison_away(self, at: int) -> None:
        """End the job, make the topic anew without the record, and have the job started again.

        All records before it keep their offsets: a job that has not gone past it goes on there.
        """
        self._writer.flush(_FLUSH_S)
        self._writer.check()
        supervisor = self._engine_now.pid
        os.kill(supervisor, signal.SIGSTOP)  # it starts no worker meanwhile
        while struck := self._processes():
            self._ends_due += sum(one.ppid == supervisor for one in struck)
            self._end_processes(struck)
        name, poison = self._order[at]
        topic, table = self._topic(name), self._job.inputs[name]
        limit_s = LIMIT_S + self._recovery_s
        self._cluster.remake(topic, table.partitions, _ANY_TIME, self._group, limit_s)
        self._cluster.forget()
        self._writer = InputWriter(self._cluster, {})
        for of, one in self._order[: self._sent]:
            if of == name and one is not poison:
                self._send(of, one)
        order = [one for one in [*self._order, *self._held_back] if one[1] is not poison]
        self._sent, self._stops_at = self._sent - 1, None
        self._set_input(order)
        # A batch that was planned up to the end of the partition ends there again.
        place = (name, poison.partition)
        beside = (n for n in range(self._sent, len(order)) if _place(order[n]) == place)
        self._feed(next(beside, self._sent - 1) + 1)
        self._writer.flush(_FLUSH_S)
        self._ends_before = len(self.run.exits)
        self._committed, self._position = False, None
        self._struck_at = self._moved_at = time.monotonic()
        os.kill(supervisor, signal.SIGCONT)

    # -- progress and the end ----------------------------------------------------------------

    def _ask_offsets(self) -> None:
        kafka = client_library()
        places = [kafka.TopicPartition(*place) for place in self._ends]
        with contextlib.suppress(kafka.KafkaException):  # an open transaction, or a coordinator
            found = self._watcher.committed(places, timeout=2)
            self._released = sum(max(0, one.offset) for one in found)
            self._committed = all(
                one.offset >= self._ends[one.topic, one.partition] for one in found
            )

    def _checkpointed(self) -> int | None:
        """Return how many records a checkpoint says are handled, None without one."""
        folder = self._job.checkpoint(self._state)
        return None if folder is None else checkpoint.handled(folder, self._topics)

    def _move(self, now: float) -> None:
        traffic = self._proxy.traffic
        position = (
            self._released,
            traffic.commits,
            traffic.taken,
            [self.run.moments[one] for one in ("committed", "appended")],
            self._checkpointed(),
            [sink.position() for sink in self._sinks.values()],
        )
        if position != self._position:
            committed = self._position is not None and position[0] != self._position[0]
            if self._position is not None and self.run.startup_s and not self.run.fired:
                self.run.silence_s = max(self.run.silence_s, self._quiet_s)
                if committed:
                    without_s = self._clock.fair_s(self._released_at)
                    self.run.uncommitted_s = max(self.run.uncommitted_s, without_s)
            if committed:
                self._released_at = now
            self._position, self._moved_at = position, now
            self._note_recovery()

    def _repeats(self, limit_s: float) -> bool:
        """Tell whether a job that ends by its commits works on, and commits nothing any more."""
        plan, without_s = self._plan, self._clock.fair_s(self._released_at)
        told = plan.tells == _COMMITTED and bool(self._released) and not self._committed
        return told and without_s > max(limit_s / 2, 10 * plan.uncommitted_s, 2 * self._recovery_s)

    def _note_recovery(self) -> None:
        """Note that the job goes on: it moves, and its new life has been given records."""
        uses = self._uses.values()
        if self._dead_since and any(one.fetched for one in uses if one.number > self._last_use):
            self.run.recoveries_s.append(round(self._clock.fair_s(self._dead_since), 3))
            self._dead_since, self._unproven = 0.0, False

    @property
    def _settled(self) -> bool:
        """True if nothing has come for a while, and nobody reads input again who may repeat it."""
        again_s = self._clock.fair_s(self._t0 + self.run.reads.again_s)
        return self._quiet_s >= _SETTLE_S and again_s >= _AGAIN_S

    @property
    def _quiet_s(self) -> float:
        """How long the job has stood still, though the machine let it run."""
        return self._clock.fair_s(self._moved_at)

    def _silence_limit_s(self) -> float:
        plan = self._plan
        limit_s = max(3 * max(plan.silence_s, self.run.silence_s), _SHORTEST_SILENCE_S)
        if not plan.silence_s:
            waits = Api.JOIN_GROUP in self._proxy.traffic.timeouts_ms and not self._released
            limit_s = max(limit_s, _FIRST_COMMIT_S if waits else _FIRST_SILENCE_S)
        if plan.tells:  # who commits by a timer may have to wait for it
            limit_s = max(limit_s, _WITHOUT_END_S, 1.5 * plan.uncommitted_s)
        if self._struck_at:
            limit_s = max(limit_s, self._still_s)
            if plan.tells or self._dead_since or self._moved_at == self._struck_at:
                limit_s += self._recovery_s  # clients may wait as long as they were told to
        startup_s = self._job.table.startup_timeout_s
        if limit_s < startup_s and self._quiet_s > limit_s and not self._has_output():
            # It has not begun to read; or a first output, which may take as long as a start.
            return startup_s
        return limit_s

    def _has_output(self) -> bool:
        if not self._gave:
            with contextlib.suppress(BadOutput):
                self._gave = any(sink.rows() for sink in self._sinks.values())
        return self._gave

    @property
    def _still_s(self) -> float:
        """Seconds that a sound job may stand still: the dead keep what they owned for a session."""
        plan = self._plan
        return max(3 * plan.silence_s, 3 * plan.startup_s, self._missed_s)

    @property
    def _recovery_s(self) -> float:
        """How long a sound job may stand still after a fault: sessions, transactions, a start."""
        # As asked: clients wait that long, whatever the broker was told.
        waits = [max(ms) / 1000 for ms in self._proxy.traffic.timeouts_ms.values()]
        return _BUSY_S + sum(waits) + 3 * max(self._plan.startup_s, self.run.startup_s)

    def _end(self, now: float) -> str:
        """Say why the run is over, "" as long as it is not."""
        quiet_s = self._quiet_s
        if quiet_s > self._silence_limit_s():
            # Who does not move with more input either does not wait for the next strike.
            if not self._pending or self._given_up_at == self._position:
                return f"{SILENCE} of {quiet_s:.0f} s"
            with self._lock:
                strike = self._pending.popleft()
                self.run.missed.append(f"{strike.do} at {strike.at or 'its time'}")
            self._moved_at, self._given_up_at = now, self._position
            return ""
        if self._pending or self._due:
            return ""
        if self._committed:
            # A transaction that nobody ends hides output until its timeout.
            return _COMMITTED if all(sink.whole() for sink in self._sinks.values()) else ""
        if quiet_s < _ASK_S or self._transactions():
            return ""
        told = (self._checkpointed(), *(sink.settled() for sink in self._sinks.values()))
        settled = [done for done in told if done is not None]
        if settled:
            self.run.settled = min(settled), self._total
            # Who has counted too much may say so before all of its input has come.
            if min(settled) == self._total:
                return _SETTLED
        complete = self._plan.complete
        if complete and complete({name: sink.rows() for name, sink in self._sinks.items()}):
            return "the oracle's complete output"
        return ""

    def _gave_up(self, ended: str) -> bool:
        """Tell whether a job that says when it is done stood still without saying so.

        Who has handled more than there is has said so.
        """
        done, of = self.run.settled or (0, 1)
        told = self._plan.tells in (_COMMITTED, _SETTLED)
        return told and ended.startswith(SILENCE) and not (self._committed or done >= of)

    def _note_busy(self, began: float, busy_s: float) -> None:
        self.run.busy = (_busy_s() - busy_s) / max(time.monotonic() - began, 0.1)

    def _note_exits(self) -> None:
        """Note ends of workers that no fault brought about."""
        with contextlib.suppress(OSError), (self._folder / "stderr.log").open("rb") as file:
            file.seek(self._stderr_at)
            text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._stderr_at += len(whole)
            for worker, status in _ENDED.findall(whole.decode("utf-8", "backslashreplace")):
                if self._ends_due:
                    self._ends_due -= 1
                    continue
                recently = time.monotonic() < self._struck_at + _TERM_S
                restarted = recently and any(one.do == "restart" for one in self.run.fired[-1:])
                if status != "-9" and not restarted:
                    said = f"worker {worker} ended by itself with {_STATUS} {status}"
                    self.run.exits.append(said)
                    self.run.ends.append(End(time.monotonic() - self._t0, said))

    def _note_end(self) -> None:
        """Read the output that is there in the end, once nothing of the job lives."""
        if self._engine is not None:
            self._engine.end()
        run, traffic = self.run, self._proxy.traffic
        run.shared_names = sorted(
            f"{one.kind} {shown(one.text, 100)}"
            for one in traffic.names
            if collides(one.text, self._group)
        )[:_MOST_NAMES]
        run.missed += [f"{one.do} at {one.at or 'its time'}" for one in self._pending]
        for api, what in ((Api.JOIN_GROUP, "session"), (Api.INIT_PRODUCER_ID, "transaction")):
            if asked := traffic.timeouts_ms.get(api):
                longest = max(asked)
                most = self._proxy.longest_ms.get(api, longest)
                said = f"{longest / 1000:g} s"
                run.timeouts[what] = (
                    said if most >= longest else f"{most / 1000:g} s, asked for {said}"
                )
        run.joined = traffic.requests[Api.TXN_OFFSET_COMMIT]
        run.stderr = [self._last_words()]
        try:
            deadline = time.monotonic() + 5
            before = None
            while time.monotonic() < deadline:  # a topic's last committed rows
                for sink in self._sinks.values():
                    sink.take()
                if (position := [sink.position() for sink in self._sinks.values()]) == before:
                    break
                before = position
                time.sleep(_ASK_S)
            run.rows = {name: sink.rows(ended=True) for name, sink in self._sinks.items()}
            if self._ledger:
                run.reused_key = next(iter(self._ledger.reused.values()), "")
                called = {n: one for n, one in self._sinks.items() if isinstance(one, HttpSink)}
                run.request_keys = {name: one.keys() for name, one in called.items()}
        except BadOutput as error:
            run.failure = run.failure or str(error)

    # -- faults ------------------------------------------------------------------------------

    def _greeted(self, use: ConnectionUse) -> None:
        self._uses[use.number] = use

    def _observe(self, moment: str, connection: int) -> Future[bool] | None:
        """Hear of a moment; hold the connection if a strike is due at it (proxy's thread)."""
        with self._lock:
            self.run.moments[moment] += 1
            if not self._pending or self._pending[0].at != moment or self._over.is_set():
                return None
            if self._pending[0].down and self._was_there(connection):
                return None
            # Nobody stands still meanwhile.
            if self._due or self._striking or not self._may_strike:
                return None
            self._seen += 1
            if self._seen < self._pending[0].nth:
                return None
            self._seen = 0
            held: Future[bool] = Future()
            self._due.append((self._pending.popleft(), connection, held))
            return held

    def _look(self) -> None:
        """Strike if its time has come, or the moment of a transaction in a database."""
        strike = self._pending[0]
        if not self._may_strike:
            return
        if strike.at in ("", IDLE):
            # It strikes a life that has been given records, if there is one.
            if self._sent < int(self._total * self._share(1.0)) or not self._fetched(None):
                return
            if strike.at == IDLE and not self._is_idle():
                return
        else:
            now = time.monotonic()
            if now - self._listed_at > 1.0:
                self._listed_at, self._listed = now, self._processes()
            if not self._listed or not self._fetched(None):
                return
            if not self._is_moment(strike.at, now):
                return
            _signal(self._listed, signal.SIGSTOP)  # quickly: a transaction is short
            self._seen += 1
            missed = strike.at == "transaction" and not self._transactions()
            if self._seen < strike.nth or missed:
                _signal(self._listed, signal.SIGCONT)
                time.sleep(0.02)
                return
        # What it kills may leave a journal, or files.
        self._seen, self._open, self._commits, self._shared_at = 0, frozenset(), None, 0.0
        with self._lock:
            self._pending.popleft()
        if strike.do in ("pause", "refuse", "slow", *OF_BROKERS):  # it meets those at work
            _signal(self._listed, signal.SIGCONT)
        self._strike(strike, 0, None)
        _signal(self._listed, signal.SIGCONT)  # those that it left alive stood still for it

    @property
    def _may_strike(self) -> bool:
        return not (self._unproven or self._returning or self._balancing_since)

    def _was_there(self, connection: int) -> bool:
        """Say whether a connection is older than the death of the worker that was down last."""
        of_kafka, beside = self._last_before_down
        return 0 <= connection <= of_kafka or 0 > connection >= beside

    def _let_balance(self, now: float) -> None:
        """Let no strike come at one of several workers before each of them has its share.

        Groups that move partitions bit by bit need several heartbeats for that. Until then one
        worker may have all: its fault moves everything, and never meets what others keep.
        """
        several = self._job.table.workers > 1 and not self._job.table.roles
        if several and self._pending and self._pending[0].target == "worker":
            self._balancing_since = now

    def _look_for_balance(self) -> None:
        """Look whether each worker has its share, or had time to get one."""
        since = self._balancing_since
        if since and (self._clock.fair_s(since) > self._missed_s or self._is_balanced()):
            self._balancing_since = 0.0

    def _is_balanced(self) -> bool:
        widest = max(table.partitions for table in self._job.inputs.values())
        askers = self._proxy.traffic.askers.copy().values()
        ports, port = {one.port for one in askers if not one.over}, self._proxy.port
        workers = self._workers().values()
        owners = [some for some in workers if holders([one.pid for one in some], ports, port)]
        return len(owners) >= min(len(workers), widest)

    @property
    def _returning(self) -> bool:
        """True while a broker that was killed is on its way back."""
        return self._brokers is not None and self._brokers.returning

    def _is_idle(self) -> bool:
        """Tell whether the job stands still with its share handled, or will not in this run."""
        self._shared_at = self._shared_at or time.monotonic()
        if self._quiet_s > max(3 * self._plan.silence_s, _IDLE_S):  # not between two steps of it
            return True
        # Who commits by a timer is never quiet.
        return self._clock.fair_s(self._shared_at) > 2 * self._still_s

    def _is_moment(self, at: str, now: float) -> bool:
        """Tell whether a transaction is open in a database, or one that was open is over."""
        if at == "transaction-over" and (newly := self._newly_committed()) is not None:
            return newly
        before, self._open = self._open, self._transactions()
        if not before or self._open != before:
            self._open_since = now
        if at == "transaction":
            return bool(self._open)
        return not before <= self._open or (bool(before) and now - self._open_since > _OPEN_S)

    def _newly_committed(self) -> bool | None:
        """Tell whether files were committed since the last look, None where nothing says that."""
        sinks = [one for one in self._sinks.values() if isinstance(one, FilesSink)]
        told = [(n, known) for n, one in enumerate(sinks) if (known := one.commits()) is not None]
        if not told:
            return None
        before = self._commits
        self._commits = frozenset((n, name) for n, known in told for name in known)
        return before is not None and not self._commits <= before

    def _transactions(self) -> frozenset[str]:
        """Return the transactions that are open, and which of several outputs are written."""
        found = ((name, sink.transactions()) for name, sink in self._sinks.items())
        return frozenset(f"{name} {one}" for name, some in found for one in some)

    @property
    def _engine_now(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def _living(self) -> list[process_table.Proc]:
        return self._engine_now.living()

    def _processes(self) -> list[process_table.Proc]:
        """Return the processes of the job, without what the kit started to look after them."""
        return [one for one in self._living() if one.pid != self._engine_now.pid]

    def _workers(self) -> dict[str, list[process_table.Proc]]:
        """Return worker -> its processes."""
        engine = self._engine_now
        named = {one.pid: one.name for one in engine.topology(_ANSWER_S)}
        living = {one.pid: one for one in self._living()}
        found = {}
        for pid, name in named.items():
            if pid in living and pid != engine.pid:
                found[name] = [living[pid], *process_table.descendants(living, pid)]
        return found

    def _strike(self, strike: Strike, connection: int, held: Future[bool] | None) -> None:
        self._striking, self._meanwhile = True, 0.5
        try:
            self._carry_out(strike, connection, held)
        finally:
            self._striking = False
            self._struck_at = self._moved_at = time.monotonic()
            self._let_balance(self._struck_at)
            if held is not None and not held.done():
                kills = strike.do == "kill" or strike.do in REPLACES
                held.set_result(strike.at.endswith("-received") and kills)

    def _carry_out(self, strike: Strike, connection: int, held: Future[bool] | None) -> None:
        if strike.do == "cut":
            fetched, count = self._fetched(None), self._proxy.reset_all()
            count += sum(one.reset_all() for one in self._beside)
            what = counted(count, "connection")
            self._note(strike, what, fetched, "traffic" if count else "")
            return
        if strike.do in ("refuse", "slow"):
            self._obstruct(strike)
            return
        if strike.do == "error":
            self._err(strike, held)
            return
        if strike.do in OF_BROKERS:
            self._kill_broker(strike, connection, held)
            return
        self._over.wait(strike.seconds)
        workers = self._workers()
        owner = self._owner(workers, connection) if not strike.whole else ""
        who = self._victim(strike, workers, owner)
        if owner != who and held is not None:
            held.set_result(False)  # it is of another worker, which has to take over
            held = None
        struck = self._processes() if strike.whole else workers.get(who, [])
        fetched = self._fetched([one.pid for one in struck])
        under_way = self._under_way(strike, held is not None, connection)
        named = "the whole job" if self._job.table.roles else " and ".join(workers)
        what = (named if strike.whole else who) or "no worker"
        if strike.do == "pause":
            self._pause(struck, partial(self._note, strike, what, fetched, under_way), held)
            return
        gently = strike.do == "restart" or (strike.do in REPLACES and not strike.at)
        if strike.do in REPLACES:
            self._note_exits()
            self._unproven, self._ends_before = True, len(self.run.exits)
            self._ends_due = 1 if self._job.table.roles else len(workers)
            version, values = self._versions[strike.do], self._values()
            self._engine_now.request(
                "replace",
                _ANSWER_S,
                argv=version.command(values),
                env=version.environment(values),
                workers=version.workers,
            )
        if strike.down:
            beside = [number for one in self._beside for number in one.uses]
            self._last_before_down = max(self._uses, default=0), min(beside, default=0)
            self._engine_now.request("down", _ANSWER_S)
        self._end_processes(struck, gently, held)
        if strike.whole or not self._job.outlives_worker:
            self._dead_since = time.monotonic()
            self._last_use = max(self._uses, default=0)
        self._note(strike, what, fetched, under_way or ("its life" if gently else ""))
        if strike.down:
            self._feed_those_left(self._missed_s + _OWNS_S)
            self._engine_now.request("up", _ANSWER_S)
        self._listed_at = 0.0

    def _end_processes(
        self,
        struck: Sequence[process_table.Proc],
        gently: bool = True,
        held: Future[bool] | None = None,
    ) -> None:
        """End processes, gently by SIGTERM at first. held: the connection that waits for it."""
        _signal(struck, signal.SIGTERM if gently else signal.SIGKILL)
        if gently:
            _signal(struck, signal.SIGCONT)
            if held is not None:
                # Its handlers begin with that under way, and may end it then.
                self._over.wait(_HANDLERS_S)
                held.set_result(False)
        deadline = time.monotonic() + _TERM_S
        while any(_lives(one) for one in struck) and time.monotonic() < deadline:
            self._over.wait(0.01)
        _signal([one for one in struck if _lives(one)], signal.SIGKILL)

    def _pause(
        self, struck: list[process_table.Proc], note: Callable[[], None], held: Future[bool] | None
    ) -> None:
        """Stop processes, and let them go on; note: called in between; held: still is, after it."""
        _signal(struck, signal.SIGSTOP)
        short = sum(one.do == "pause" for one in self.run.fired) % 2 == 0
        note()
        # A member is missed only at a heartbeat, which may be half a session later. Each other
        # pause ends before a transaction that is open does, which the worker then goes on with:
        # once another has taken over, or at last when the transaction is about to end.
        transaction_s, missed_s = self._lasts_s(Api.INIT_PRODUCER_ID), self._missed_s
        if short:
            near_end_s = transaction_s - _NEAR_END_S
            waits = self._job.outlives_worker and transaction_s < math.inf
            self._feed_those_left(near_end_s if waits else min(missed_s + _OWNS_S, near_end_s))
        else:
            over_s = transaction_s + _NEAR_END_S if transaction_s < math.inf else 0.0
            lasts_s = max(missed_s, over_s)
            until = time.monotonic() + lasts_s
            self._feed_those_left(lasts_s)
            self._feed_for(until - time.monotonic())
        returned = self._taken_over()
        _signal(struck, signal.SIGCONT)
        if short and held is not None and transaction_s == math.inf:
            # Its batch is under way still as it joins again, which it notices at a heartbeat.
            self._feed_for(missed_s - self._owned_s, returned)
            self._feed_for(_BEGINS_S)

    def _feed_those_left(self, most_s: float) -> None:
        """Let others take over, and handle input of all that they own then, for ``most_s`` at most.

        Half of it is kept for then: what a worker has in memory of its own partitions may be wrong
        once others have come.
        """
        until = time.monotonic() + most_s
        self._meanwhile = _FIRST
        self._feed_for(most_s, self._taken_over())
        self._meanwhile = 0.5
        self._feed_for(min(until - time.monotonic(), _OWNS_S))

    @property
    def _missed_s(self) -> float:
        """After how long a worker that is gone is missed, at the latest: at a heartbeat."""
        return self._owned_s * 1.5 + 2

    def _obstruct(self, strike: Strike) -> None:
        """Turn clients away, or have answers wait, for as long as a strike lasts."""
        fetched = self._fetched(None)
        servers = self._beside if strike.beside else [self._proxy, *self._beside]
        away = strike.do == "refuse"
        for server in servers:
            server.obstacle.set(away=away, lag_s=0.0 if away else LAG_S)
        count = sum(server.reset_all() for server in servers) if away else 0
        self._feed_for(strike.seconds)
        met = sum(server.obstacle.met for server in servers)
        for server in servers:
            server.obstacle.set()
        what = counted(count, "connection") if count else "every connection"
        if away:
            whom = counted(met, "connection turned away", "connections turned away")
        else:
            whom = counted(met, "answer that was late", "answers that were late")
        self._note(strike, what, fetched, whom if met else "")

    def _err(self, strike: Strike, held: Future[bool] | None) -> None:
        """Have the next offsets of a transaction, or output, answered with an error.

        The broker never sees them. held: output that waits for it.
        """
        fetched, obstacle = self._fetched(None), self._proxy.obstacle
        obstacle.set(errs="Produce" if strike.at else "TxnOffsetCommit")
        if held is not None:
            held.set_result(False)
        self._feed_for(_ERROR_S, lambda: obstacle.met > 0)
        what, ended = "offsets of a transaction", "the end of a transaction"
        if strike.at:
            what, ended = "output", "a held append"
        under_way = ended if obstacle.met else ""
        obstacle.set()
        self._note(strike, what, fetched, under_way)

    @property
    def _owned_s(self) -> float:
        """How long what a worker owns stays its own: its session, without one its transaction."""
        asked = self._proxy.traffic.timeouts_ms
        if not {Api.JOIN_GROUP, Api.INIT_PRODUCER_ID} & asked.keys():
            return SESSION_MS / 1000
        return self._lasts_s(Api.JOIN_GROUP if Api.JOIN_GROUP in asked else Api.INIT_PRODUCER_ID)

    def _lasts_s(self, api: Api) -> float:
        """Return how long the sessions or transactions last that a request asks for, if any did."""
        if not (asked_ms := self._proxy.traffic.timeouts_ms.get(api)):
            return math.inf
        return min(max(asked_ms), self._proxy.longest_ms.get(api, math.inf)) / 1000

    def _taken_over(self) -> Callable[[], bool]:
        """Return what tells, asked again and again, that a group has a new owner.

        It has its share of the group, and asks where to begin, which clients do when what the job
        does at an assignment is done. A job may wait there for the transaction of the old owner.
        """
        requests, clock = self._proxy.traffic.requests, time.monotonic
        synced, shared = requests[Api.SYNC_GROUP], list[tuple[float, int]]()

        def told() -> bool:
            if requests[Api.SYNC_GROUP] > synced and not shared:
                shared.append((clock(), requests[Api.OFFSET_FETCH]))
            return any(
                requests[Api.OFFSET_FETCH] > asked or clock() > at + _WAITS_S
                for at, asked in shared
            )

        return told

    def _kill_broker(self, strike: Strike, connection: int, held: Future[bool] | None) -> None:
        """End the broker, which is started again on its data, or the leader among several."""
        assert self._brokers is not None
        fetched = self._fetched(None)
        under_way = self._under_way(strike, held is not None, connection)
        if strike.do == KILL_BROKER:
            self._brokers.restart()
            self._note(strike, "the broker", fetched, under_way)
            return
        grace_s = GRACE_S if strike.do == END_LEADER else 0.0
        if (strike.seconds or grace_s) and held is not None:
            held.set_result(False)  # it has to reach the one that is alone, or that hands over
        try:
            facts = self._brokers.kill_leader(
                connection, strike.seconds, grace_s, wait=self._feed_for
            )
        except LookupError:  # on a busy machine the others may lag behind
            facts, under_way = {"alone": 0, "waiting": 0}, ""
        if strike.seconds:
            waits = f"{counted(facts['waiting'], 'request')} without an answer"
            under_way = waits if facts["waiting"] else ""
        if alone := facts["alone"]:
            under_way = f"{counted(alone, 'record')} that it had acknowledged alone"
        self._note(strike, "a broker of three", fetched, under_way)

    def _broker_away(self, away: bool) -> None:
        """Have the kit's client learn of new leaders."""
        if not away:
            self._cluster.forget()

    def _note(self, strike: Strike, what: str, fetched: int, under_way: str) -> None:
        fired = Fired(strike.do, strike.at, time.monotonic() - self._t0, what, fetched, under_way)
        self.run.fired.append(fired)
        self._tell("fault", do=strike.do, target=strike.target, **self._counts())
        if not fired.counts and strike.at != IDLE and self._tries < MOST_TRIES:
            self._tries += 1
            with self._lock:
                self._pending.appendleft(strike)

    def _under_way(self, strike: Strike, held: bool, connection: int) -> str:
        found = []
        if self._proxy.open_transactions:
            found.append("an open transaction")
        found += [sink.open for sink in self._sinks.values() if sink.transactions()]
        if strike.at == IDLE:
            found.append(f"a silence of {self._quiet_s:.1f} s")
        if not found and strike.at == "transaction-over":
            found.append("output that was written just before")
        if connection < 0:  # nothing is under way in a database before a statement is
            called = self._ledger is not None and connection in self._ledger.uses
            known = ledger.UNDER_WAY if called else postgres_proxy.UNDER_WAY
            found += [known[strike.at]] if strike.at in known else []
        elif held:
            what = strike.at.partition("-")[0]
            found.append(f"held {what}" if what.endswith("s") else f"a held {what}")
        return " and ".join(found)

    def _victim(self, strike: Strike, workers: Collection[str], owner: str) -> str:
        """Return the worker that a strike meets: the owner of its moment, or one that was down."""
        if not strike.down:
            return owner
        if self._was_down not in workers:
            self._was_down = owner
        return self._was_down

    def _owner(self, workers: dict[str, list[process_table.Proc]], connection: int) -> str:
        """Return the worker that holds a connection; else of those that were given records one."""
        if len(workers) < 2:
            return next(iter(workers), "")
        uses = [(one, self._proxy.port) for one in self._uses.values() if not one.over]
        for proxy in self._beside:
            if connection in proxy.uses:
                uses.append((proxy.uses[connection], proxy.port))
        uses.sort(key=lambda one: (one[0].number != connection, -one[0].fetched))
        for use, server in uses:
            for name, some in workers.items():
                if holders([one.pid for one in some], {use.port}, server):
                    return name
        return next(iter(workers))

    def _fetched(self, pids: Sequence[int] | None) -> int:
        """Return how many records the connections of processes were given; None: of all."""
        uses = [one for one in self._uses.values() if not one.over]
        if pids is None:
            return sum(one.fetched for one in uses)
        held = holders(pids, {one.port for one in uses}, self._proxy.port)
        return sum(one.fetched for one in uses if one.port in held)


def _place(one: tuple[str, Record]) -> tuple[str, int]:
    return one[0], one[1].partition


def _last_beside(order: Sequence[tuple[str, Record]], at: int) -> int:
    """Return the index of the last record in the partition of another; behind all if none is."""
    place = _place(order[at])
    last = (n for n in range(len(order) - 1, at, -1) if _place(order[n]) == place)
    return next(last, len(order))


def _in_turn(queues: list[list[Any]]) -> Iterator[list[Any]]:
    for at in range(max(map(len, queues))):
        yield [queue[at] for queue in queues if at < len(queue)]


def _signal(processes: Sequence[process_table.Proc], number: int) -> None:
    for one in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if _lives(one):
                os.kill(one.pid, number)


def _lives(one: process_table.Proc) -> bool:
    now = process_table.read(one.pid)
    return now is not None and now.started == one.started and process_table.living(now)


def _busy_s() -> float:
    """Return the seconds that the processors of this machine have been busy."""
    spent = psutil.cpu_times()
    return sum(spent) - spent.idle - getattr(spent, "iowait", 0.0)


def _watcher(bootstrap: str, group: str) -> Any:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return client_library().Consumer(settings | {"log_level": 0})
