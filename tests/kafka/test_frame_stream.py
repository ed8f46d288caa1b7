"""What the proxy holds of frames that are not whole, and what it hears of a broker that died."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_server.logbench import DEADLINE_S, until
from tickproof.conformance.kafka import frame_stream
from tickproof.conformance.kafka.channels import PlainChannel
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.frame_stream import BUDGET, Budget, FrameStream, sized
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles

MIB = 1 << 20


def through(bodies: list[bytes], budget: Budget) -> list[bytes]:
    """Return frames as they come out of a stream that reads what a thread sends."""
    here, there = socket.socketpair()

    def send() -> None:
        with here, contextlib.suppress(OSError):  # of a frame that is too long the rest stays
            here.sendall(b"".join(map(bytes, map(sized, bodies))))

    sender = threading.Thread(target=send)

    async def read() -> list[bytes]:
        found = []
        there.setblocking(False)
        with contextlib.closing(FrameStream(PlainChannel(there), budget)) as stream:
            while await stream.read():
                found += [bytes(frame[4:]) for frame in stream.frames()]
        return found

    sender.start()
    try:
        return asyncio.run(read())
    finally:
        there.close()
        sender.join(DEADLINE_S)


SIZES = st.sampled_from([1, 100, 16_380, 16_381, 65_532, 65_533, 70_000, 300_000, 1_100_000])


@settings(max_examples=20)
@given(st.lists(SIZES, max_size=12), st.integers(0, 99))
def test_frames_of_all_sizes_come_out_as_they_went_in(sizes, seed: int):
    draw, budget = random.Random(seed), Budget()
    bodies = [draw.randbytes(size) for size in sizes]
    assert through(bodies, budget) == bodies
    assert budget.left == BUDGET


def test_a_frame_beyond_the_budget_ends_its_connection_alone():
    budget = Budget(2 * MIB)
    bodies = [bytes(MIB)] * 5
    assert through(bodies, budget) == bodies
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)

        async def hold() -> None:
            with contextlib.closing(FrameStream(PlainChannel(there), budget)) as other:
                reading = asyncio.create_task(other.read())
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(here, struct.pack(">i", 3 * MIB) + bytes(MIB + 9))
                while budget.left > MIB:
                    await asyncio.sleep(0)
                with pytest.raises(Malformed, match="long frames of all connections"):
                    await asyncio.to_thread(through, [bytes(3 * MIB)], budget)
                reading.cancel()

        asyncio.run(hold())
    assert budget.left == 2 * MIB


@contextlib.contextmanager
def before_a_broker() -> Iterator[tuple[Proxy, socket.socket]]:
    """Give a proxy and what listens in place of a broker."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        roles = Roles({}, set())
        with Proxy([broker.getsockname()[1]], roles, lambda *_, **__: None) as proxy:
            yield proxy, broker


def test_a_broker_that_died_is_noticed_though_no_client_comes_back():
    with before_a_broker() as (proxy, broker):
        with socket.create_connection(("127.0.0.1", proxy.port), DEADLINE_S):
            upstream, _ = broker.accept()
            broker.close()
            upstream.close()
            until(lambda: proxy.failure is not None)
        assert "takes no connection" in str(proxy.failure)


def test_a_broker_that_ends_a_connection_is_not_taken_for_dead():
    with before_a_broker() as (proxy, broker):
        with socket.create_connection(("127.0.0.1", proxy.port), DEADLINE_S):
            broker.accept()[0].close()
            until(lambda: not proxy.live)
        assert proxy.failure is None


#: Prints the peak memory of a proxy whose clients each announce 100 MiB and send 10.
_HOARDED = """
import socket, struct
from conformance.performance.kit import peak_bytes
from tests.kafka.test_frame_stream import before_a_broker
from tests.log_server.logbench import DEADLINE_S
piece, peers, upstream = bytes(1 << 20), [], []
with before_a_broker() as (proxy, broker):
    for _ in range(48):
        peers.append(socket.create_connection(("127.0.0.1", proxy.port), DEADLINE_S))
        upstream.append(broker.accept()[0])
        try:
            peers[-1].sendall(struct.pack(">i", 100 << 20))
            for _ in range(10):
                peers[-1].sendall(piece)
        except OSError:
            pass  # it was one too many
    for peer in peers + upstream:
        peer.close()
print(peak_bytes() >> 20)
"""


def test_clients_that_announce_long_frames_share_one_budget():
    assert frame_stream.BUDGET == 192 * MIB
    words = [sys.executable, "-c", _HOARDED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 400, "MiB; 48 buffers of 16 MiB are 768"
