"""The ledger: each key counts once, and a request is lost or kept as its moment says."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.ledger import HttpSink, Ledger
from tickproof.conformance.jobs.sinks import BadOutput


class Scene:
    """A ledger; held: moment -> what a request waits for there."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.held: dict[str, Future[bool]] = {}
        self.ledger = Ledger(["charges"], self.observe, itertools.count(-5, -1))

    def observe(self, moment: str, connection: int) -> Future[bool] | None:
        assert connection <= -5
        self.seen.append(moment)
        return self.held.get(moment)

    def sink(self, *identity: str) -> HttpSink:
        return HttpSink(OutputTable(http=True, identity=list(identity)), self.ledger, "charges")

    def post(
        self, body: object, key: str = "", path: str = "/charges/x", method: str = "POST"
    ) -> int:
        headers = {"Idempotency-Key": key} if key else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        client = http.client.HTTPConnection("127.0.0.1", self.ledger.port, timeout=30)
        try:
            client.request(method, path, content, headers)
            return client.getresponse().status
        finally:
            client.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    with made.ledger:
        yield made


def test_a_key_counts_once_and_another_key_again(scene: Scene) -> None:
    assert scene.post({"order": 1}, "a") == 200
    assert scene.post({"order": 1}, "a", method="PUT") == 200
    assert scene.sink("order").rows() == [("[1]", {"order": 1})]
    assert scene.post({"order": 1}, "b") == 200
    assert scene.post({"order": 1}) == 200
    assert [row for row, _ in scene.sink("order").rows()] == ["[1]"] * 3
    assert scene.sink("order").keys() == {"[1]": ["a", "a", "b", ""]}
    assert scene.post({"order": 2}, "a") == 422
    assert scene.sink("order").position() == 4
    assert scene.ledger.reused == {
        "charges": '[outputs.charges]: Idempotency-Key a stands for {"order": 1} and {"order": 2}'
    }


def test_without_identity_a_row_is_its_key(scene: Scene) -> None:
    scene.post({"order": 1}, "a")
    assert scene.sink().rows() == [("a", {"order": 1})]
    scene.post({"order": 1})
    with pytest.raises(BadOutput, match="request 2, POST /charges/x: expected identity"):
        scene.sink().rows()


@pytest.mark.parametrize(
    ("moment", "drop", "rows"),
    [("append-received", True, 0), ("append-received", False, 1), ("appended", False, 1)],
)
def test_a_request_is_held_at_its_moments(scene: Scene, moment: str, drop: bool, rows: int) -> None:
    scene.held[moment] = held = Future[bool]()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(scene.post, {"order": 1}, "a")
        while moment not in scene.seen:
            assert not asked.done()
        assert len(scene.sink("order").rows()) == (moment == "appended")
        held.set_result(drop)
        if drop:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                asked.result(30)
        else:
            assert asked.result(30) == 200
    assert len(scene.sink("order").rows()) == rows
    assert scene.seen == ["staged", "append-received", "appended"][: 3 if not drop else 2]


def test_a_reset_loses_the_answer_and_keeps_what_was_recorded(scene: Scene) -> None:
    scene.held["appended"] = held = Future[bool]()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(scene.post, {"order": 1}, "a")
        while "appended" not in scene.seen:
            assert not asked.done()
        assert scene.ledger.reset_all() == 1
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            asked.result(30)
        held.set_result(False)
    del scene.held["appended"]
    assert scene.post({"order": 1}, "a") == 200
    assert len(scene.sink("order").rows()) == 1


def test_what_is_no_row_is_answered_and_said(scene: Scene) -> None:
    assert scene.post({"order": 1}, path="/elsewhere") == 404
    assert scene.post(b"", method="GET") == 200
    assert scene.post(b"x" * (2 << 20)) == 413
    scene.sink("order").take()
    assert scene.post(b"[1]") == 400
    assert scene.post(b"[" * 100_000) == 400
    with pytest.raises(BadOutput, match=r"\[outputs.charges\] POST /charges/x: expected a JSON"):
        scene.sink("order").take()
    assert scene.sink("order").rows() == []
