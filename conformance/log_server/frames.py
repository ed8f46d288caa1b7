"""Frames of the data plane: requests decoded, replies encoded (docs/protocol.md, section 4).

A frame is ``u32 length of the rest | u8 op | body``, little-endian. Requests decode
into small tuples; record regions stay memoryviews, so nothing is copied for each
record.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from tickproof.conformance.errors import TickproofError

VERSION: Final = 1
MAX_FRAME: Final = 16 * 1024 * 1024
TOKEN_BYTES: Final = 16
UNNUMBERED: Final = 2**64 - 1


class Op(enum.IntEnum):
    """Request codes; a reply carries the code of its request with bit 7 set."""

    HELLO = 0x01
    FETCH = 0x02
    TAIL = 0x03
    RELEASE = 0x04
    APPEND = 0x05
    HAVE = 0x06
    STAGE = 0x07
    COMMIT = 0x08
    ABORT = 0x09


ERROR_REPLY: Final = 0xFF


class Code(enum.IntEnum):
    """Error codes of an 0xFF reply."""

    BAD_FRAME = 1
    UNKNOWN_STREAM = 2
    RELEASED = 3
    BEYOND_END = 4
    TOO_LARGE = 5
    SEQUENCE_GAP = 6
    FENCED = 7
    NOT_ALLOWED = 8


class CommitOutcome(enum.IntEnum):
    """Answers to COMMIT."""

    COMMITTED = 1
    ALREADY = 2
    UNKNOWN = 3


class BadFrame(TickproofError):
    """A frame whose body does not fit its op; the connection is closed after it."""


class Hello(NamedTuple):
    """First frame of a connection."""

    version: int
    token: bytes


class Fetch(NamedTuple):
    """Ask for records from ``offset`` on; waits up to ``wait_ms`` at the end."""

    stream: int
    partition: int
    offset: int
    max_bytes: int
    wait_ms: int


class Tail(NamedTuple):
    """Ask for the first and the end offset of a partition."""

    stream: int
    partition: int


class Release(NamedTuple):
    """Promise never to fetch below ``offset`` again."""

    stream: int
    partition: int
    offset: int


class Append(NamedTuple):
    """Output records; ``region`` is count x (u32 size, payload)."""

    stream: int
    writer: int
    first_seq: int
    count: int  # type: ignore[assignment]  # nobody asks a frame for tuple.count
    region: memoryview
    record_size: int  # of every record, or -1 where sizes differ


class Have(NamedTuple):
    """Ask for a writer's next number, and become its owner."""

    stream: int
    writer: int


class Stage(NamedTuple):
    """Output that becomes visible with the commit of ``txn``."""

    txn: int
    append: Append


class Commit(NamedTuple):
    """Make all that was staged under ``txn`` visible at once."""

    txn: int


class Abort(NamedTuple):
    """Drop what was staged under ``txn``."""

    txn: int


Request = Hello | Fetch | Tail | Release | Append | Have | Stage | Commit | Abort

_HEAD = struct.Struct("<IB")
_HELLO = struct.Struct("<H16s")
_FETCH = struct.Struct("<HHQII")
_TAIL = struct.Struct("<HH")
_RELEASE = struct.Struct("<HHQ")
_APPEND = struct.Struct("<HQQI")
_HAVE = struct.Struct("<HQ")
_TXN = struct.Struct("<Q")
_SIZE = struct.Struct("<I")
_FETCHED = struct.Struct("<HHQQBI")
_TAILED = struct.Struct("<HHQQB")
_NEXT = struct.Struct("<QQ")
_COMMITTED = struct.Struct("<QB")
_GREETED = struct.Struct("<HI")
_CODE = struct.Struct("<H")

#: Bytes of records that fit a reply to FETCH.
FETCHED_ROOM: Final = MAX_FRAME - _HEAD.size - _FETCHED.size


def decode_request(op: int, body: memoryview) -> Request:
    """Decode one request body; raises BadFrame that says what does not fit."""
    try:
        kind = Op(op)
    except ValueError:
        raise BadFrame(f"op 0x{op:02x} does not exist") from None
    if kind is Op.APPEND:
        return _decode_append(body)
    if kind is Op.STAGE:
        if len(body) < _TXN.size:
            raise BadFrame(f"STAGE body of {len(body)} bytes, expected at least {_TXN.size}")
        return Stage(_TXN.unpack_from(body)[0], _decode_append(body[_TXN.size :]))
    layout, make = _FIXED[kind]
    if len(body) != layout.size:
        raise BadFrame(f"{kind.name} body of {len(body)} bytes, expected {layout.size}")
    return make(*layout.unpack(body))


_FIXED: Final[Mapping[Op, tuple[struct.Struct, Callable[..., Request]]]] = {
    Op.HELLO: (_HELLO, Hello),
    Op.FETCH: (_FETCH, Fetch),
    Op.TAIL: (_TAIL, Tail),
    Op.RELEASE: (_RELEASE, Release),
    Op.HAVE: (_HAVE, Have),
    Op.COMMIT: (_TXN, Commit),
    Op.ABORT: (_TXN, Abort),
}


def _decode_append(body: memoryview) -> Append:
    if len(body) < _APPEND.size:
        raise BadFrame(f"APPEND body of {len(body)} bytes, expected at least {_APPEND.size}")
    stream, writer, first_seq, count = _APPEND.unpack_from(body)
    region = body[_APPEND.size :]
    size = region_record_size(region, count)
    if first_seq != UNNUMBERED and first_seq + count >= UNNUMBERED:
        raise BadFrame(f"first_seq {first_seq} + count {count} leaves the number space")
    return Append(stream, writer, first_seq, count, region, size)


def region_record_size(region: memoryview, count: int) -> int:
    """Return the payload size that all ``count`` records share, or -1 if they differ.

    Raises BadFrame where sizes and region do not fit. Equal sizes, the usual case,
    are checked as one strided array.
    """
    if count == 0:
        if len(region):
            raise BadFrame(f"count 0 with {len(region)} bytes of records")
        return -1
    if len(region) < _SIZE.size:
        raise BadFrame(f"count {count} with {len(region)} bytes of records")
    size = _SIZE.unpack_from(region)[0]
    stride = _SIZE.size + size
    if stride * count == len(region):
        sizes = np.ndarray((count,), "<u4", buffer=region, strides=(stride,))
        if (sizes == size).all():
            return size
    _walk(region, count)
    return -1


def _walk(region: memoryview, count: int) -> None:
    position = 0
    for record in range(count):
        if position + _SIZE.size > len(region):
            raise BadFrame(f"record {record} of {count} starts beyond the frame")
        position += _SIZE.size + _SIZE.unpack_from(region, position)[0]
        if position > len(region):
            raise BadFrame(f"record {record} of {count} ends beyond the frame")
    if position != len(region):
        raise BadFrame(f"{len(region) - position} bytes after the last of {count} records")


def frame(op: int, *parts: bytes) -> bytes:
    """Return one whole frame."""
    body = b"".join(parts)
    return _HEAD.pack(1 + len(body), op) + body


def greeted() -> bytes:
    """Reply to HELLO."""
    return frame(Op.HELLO | 0x80, _GREETED.pack(VERSION, MAX_FRAME))


def fetched_head(fetch: Fetch, end: int, ended: bool, count: int, region_bytes: int) -> bytes:
    """Reply to FETCH up to its records; ``region_bytes`` of them follow."""
    body = _FETCHED.pack(fetch.stream, fetch.partition, fetch.offset, end, ended, count)
    return _HEAD.pack(1 + len(body) + region_bytes, Op.FETCH | 0x80) + body


def tailed(tail: Tail, start: int, end: int, ended: bool) -> bytes:
    """Reply to TAIL."""
    return frame(Op.TAIL | 0x80, _TAILED.pack(tail.stream, tail.partition, start, end, ended))


def released() -> bytes:
    """Reply to RELEASE."""
    return frame(Op.RELEASE | 0x80)


def appended(writer: int, next_seq: int) -> bytes:
    """Reply to APPEND."""
    return frame(Op.APPEND | 0x80, _NEXT.pack(writer, next_seq))


def have(writer: int, next_seq: int) -> bytes:
    """Reply to HAVE."""
    return frame(Op.HAVE | 0x80, _NEXT.pack(writer, next_seq))


def staged(txn: int) -> bytes:
    """Reply to STAGE."""
    return frame(Op.STAGE | 0x80, _TXN.pack(txn))


def committed(txn: int, outcome: CommitOutcome) -> bytes:
    """Reply to COMMIT."""
    return frame(Op.COMMIT | 0x80, _COMMITTED.pack(txn, outcome))


def aborted(txn: int) -> bytes:
    """Reply to ABORT."""
    return frame(Op.ABORT | 0x80, _TXN.pack(txn))


def error(code: Code, text: str) -> bytes:
    """Error reply to any request."""
    return frame(ERROR_REPLY, _CODE.pack(code), text.encode())
