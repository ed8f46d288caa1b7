"""Connections and the processes that hold them: real sockets, inherited and passed on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from tickproof.conformance.usage.socket_holders import holders

FAMILIES = {"AF_INET": "127.0.0.1", "AF_INET6": "::ffff:127.0.0.1"}


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.parametrize("family", FAMILIES)
def test_the_holders_of_a_connection_are_found(server, family):
    port = server.getsockname()[1]
    try:
        ours = socket.socket(getattr(socket, family))
        ours.connect((FAMILIES[family], port))
    except OSError:
        pytest.skip(f"no {family} here")
    with ours:
        mine = ours.getsockname()[1]
        assert holders([os.getpid()], [mine], port) == {mine: [os.getpid()]}
        wait = "import sys; sys.stdin.read()"
        with subprocess.Popen(
            [sys.executable, "-c", wait], stdin=subprocess.PIPE, pass_fds=[ours.fileno()]
        ) as child:
            pids = [os.getpid(), child.pid]
            assert holders(pids, [mine], port) == {mine: pids}
            assert holders([child.pid], [mine], port) == {mine: [child.pid]}
            assert holders(pids, [mine], port + 1 & 0xFFFF) == {}
            child.stdin.close()


def test_who_has_ended_holds_nothing(server):
    with socket.create_connection(server.getsockname()) as ours:
        with subprocess.Popen([sys.executable, "-c", ""]) as child:
            child.wait()
        port = ours.getsockname()[1]
        assert holders([child.pid], [port], server.getsockname()[1]) == {}


def test_a_closed_connection_is_nobodys(server):
    ours = socket.create_connection(server.getsockname())
    port = ours.getsockname()[1]
    theirs, _ = server.accept()
    with theirs:
        ours.close()
        assert holders([os.getpid()], [port], server.getsockname()[1]) == {}
