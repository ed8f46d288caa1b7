"""The other end of `tickproof bench kit`: a process that reads, or writes, or answers.

Run as ``python -m tickproof.conformance.bench.kit_peer ROLE HOST PORT TOKEN ...``; it prints
one JSON object with what it did and in how many seconds. Plain sockets and numpy: it stands for
an engine, so it uses none of the kit's protocol code.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tickproof.generators.layouts import MESSAGE, ORDER, ORDER_KIND, QUOTE, VERDICT, framed

_HEAD: Final = struct.Struct("<IB")
_FETCH: Final = struct.Struct("<IBHHQII")
_FETCHED: Final = struct.Struct("<IBHHQQBI")
_APPEND: Final = struct.Struct("<IBHQQI")
_APPENDED_BYTES: Final = 21
_FETCHED_OP: Final = 0x82
_APPENDED_OP: Final = 0x85
_FETCH_BYTES: Final = 4 << 20
_APPEND_RECORDS: Final = 20_000
#: APPEND frames under way before the first answer is awaited.
_WINDOW: Final = 4


class Peer:
    """One data connection; HELLO is said."""

    def __init__(self, host: str, port: int, token: bytes) -> None:
        self.sock = socket.create_connection((host, port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(_HEAD.pack(19, 0x01) + struct.pack("<H16s", 1, token))
        self._exactly(memoryview(bytearray(11)))
        self.next_seq = 0
        self._open = 0

    def _exactly(self, into: memoryview) -> memoryview:
        left = into
        while left:
            got = self.sock.recv_into(left)
            if not got:
                raise ConnectionError("the log server closed the connection")
            left = left[got:]
        return into

    def read_all(self, use: Callable[[memoryview], None] | None) -> int:
        """Fetch partition 0 of stream 0 to its END; returns the records read.

        The next FETCH leaves as soon as the head of a reply is here.
        """
        head, body = memoryview(bytearray(_FETCHED.size)), memoryview(bytearray(_FETCH_BYTES * 2))
        self._fetch(0)
        while True:
            size, op, _, _, base, end, flags, count = _FETCHED.unpack(self._exactly(head))
            if op != _FETCHED_OP:
                raise ConnectionError(f"expected a reply to FETCH, got op {op:#x}")
            done = bool(flags & 1) and base + count == end
            if not done:
                self._fetch(base + count)
            region = self._exactly(body[: size + 4 - _FETCHED.size])
            if use is not None and region:
                use(region)
            if done:
                return base + count

    def _fetch(self, offset: int) -> None:
        self.sock.sendall(_FETCH.pack(_FETCH.size - 4, 0x02, 0, 0, offset, _FETCH_BYTES, 1000))

    def append(self, region: memoryview, count: int) -> None:
        """Send one APPEND of writer 0; awaits an answer once the window is full."""
        head = _APPEND.pack(len(region) + _APPEND.size - 4, 0x05, 0, 0, self.next_seq, count)
        self.sock.sendall(head, socket.MSG_MORE)
        self.sock.sendall(region)
        self.next_seq += count
        self._open += 1
        if self._open == _WINDOW:
            self._acknowledged()

    def settle(self) -> None:
        """Await every answer that is still out."""
        while self._open:
            self._acknowledged()

    def _acknowledged(self) -> None:
        answer = self._exactly(memoryview(bytearray(_APPENDED_BYTES)))
        if answer[4] != _APPENDED_OP:
            raise ConnectionError(f"expected a reply to APPEND, got op {answer[4]:#x}")
        self._open -= 1


class Market:
    """Market Spread on whole arrays; the latest quotes go in front of the next piece."""

    def __init__(self) -> None:
        self._latest = np.zeros(0, MESSAGE)

    def verdicts(self, messages: np.ndarray) -> np.ndarray:
        """Return one VERDICT for each order among MESSAGE records, in their order."""
        rows = np.concatenate([self._latest, messages])
        symbols, code = np.unique(_symbols(rows), return_inverse=True)
        by_symbol = np.argsort(code, kind="stable")
        is_order = (rows["kind"] == ORDER_KIND)[by_symbol]
        # Position of the latest quote at or before each row of the same symbol.
        at = np.where(is_order, -1, np.arange(len(rows)))
        latest = np.maximum.accumulate(at)
        first = np.searchsorted(code[by_symbol], np.arange(len(symbols)))
        seen = latest >= first[code[by_symbol]]
        quote = rows[by_symbol[np.maximum(latest, 0)]].view(QUOTE)
        last = np.append(first[1:], len(rows)) - 1
        self._latest = rows[by_symbol[latest[last][seen[last]]]]
        picked = np.flatnonzero(is_order)
        picked = picked[np.argsort(by_symbol[picked])]
        return _answer(rows[by_symbol[picked]].view(ORDER), quote[picked], seen[picked])


def _symbols(rows: np.ndarray) -> np.ndarray:
    raw = rows.view(np.uint8).reshape(len(rows), MESSAGE.itemsize)
    return np.ascontiguousarray(raw[:, 4:12]).view("<u8").ravel()


def _answer(order: np.ndarray, quote: np.ndarray, seen: np.ndarray) -> np.ndarray:
    out = np.zeros(len(order), VERDICT)
    out["order_id"], out["symbol"] = order["order_id"], order["symbol"]
    for name in ("quote_id", "bid", "offer"):
        out[name] = np.where(seen, quote[name], 0)
    spread = out["offer"] - out["bid"]
    reject = (spread >= 500) | (40 * spread >= out["bid"] + out["offer"])
    out["verdict"] = ~seen | reject
    return out


def _framed(payloads: np.ndarray) -> memoryview:
    records = np.empty(len(payloads), framed(payloads.dtype))
    records["size"], records["payload"] = payloads.itemsize, payloads
    return records.view(np.uint8).data


def read(peer: Peer) -> int:
    """Read everything and throw it away."""
    return peer.read_all(None)


def write(peer: Peer, records: int) -> int:
    """Send that many 48-byte outputs, in large APPENDs."""
    region = _framed(np.zeros(_APPEND_RECORDS, VERDICT))
    size = framed(VERDICT).itemsize
    for start in range(0, records, _APPEND_RECORDS):
        count = min(_APPEND_RECORDS, records - start)
        peer.append(region[: count * size], count)
    peer.settle()
    return records


def market(reader: Peer, writer: Peer) -> int:
    """Answer every order of a merged market rightly, as a sound engine would."""
    engine = Market()

    def use(region: memoryview) -> None:
        messages = np.frombuffer(region, framed(MESSAGE))["payload"].copy()
        verdicts = engine.verdicts(messages)
        if len(verdicts):
            writer.append(_framed(verdicts), len(verdicts))

    done = reader.read_all(use)
    writer.settle()
    return done


def main(role: str, host: str, port: str, token: str, records: str = "0") -> None:
    """Play one role and print what was done."""

    def connect() -> Peer:
        return Peer(host, int(port), bytes.fromhex(token))

    peer = connect()
    started = time.perf_counter()
    if role == "read":
        done = read(peer)
    elif role == "write":
        done = write(peer, int(records))
    else:
        done = market(peer, connect())
    print(json.dumps({"records": done, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(*sys.argv[1:])
