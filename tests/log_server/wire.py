"""The client's side of the frames: requests encoded, replies decoded."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tickproof.conformance.log_server import frames


def encode_request(request: frames.Request) -> bytes:
    """Return the frame of a request."""
    if isinstance(request, frames.Append):
        return frames.frame(frames.Op.APPEND, _append_body(request))
    if isinstance(request, frames.Stage):
        return frames.frame(
            frames.Op.STAGE, frames._TXN.pack(request.txn), _append_body(request.append)
        )
    op = next(op for op, (_, make) in frames._FIXED.items() if make is type(request))
    return frames.frame(op, frames._FIXED[op][0].pack(*request))


def _append_body(append: frames.Append) -> bytes:
    return frames._APPEND.pack(*append[:4]) + bytes(append.region)


class Reply(NamedTuple):
    """A decoded reply: its op (with bit 7), its fields, and its records if any."""

    op: int
    fields: tuple[int, ...]
    region: memoryview | None = None
    text: str = ""


_REPLIES: Final = {
    frames.Op.HELLO | 0x80: frames._GREETED,
    frames.Op.TAIL | 0x80: frames._TAILED,
    frames.Op.RELEASE | 0x80: struct.Struct("<"),
    frames.Op.APPEND | 0x80: frames._NEXT,
    frames.Op.HAVE | 0x80: frames._NEXT,
    frames.Op.STAGE | 0x80: frames._TXN,
    frames.Op.COMMIT | 0x80: frames._COMMITTED,
    frames.Op.ABORT | 0x80: frames._TXN,
}


def decode_reply(op: int, body: memoryview) -> Reply:
    """Decode one reply body; raises BadFrame."""
    if op == frames.ERROR_REPLY:
        if len(body) < frames._CODE.size:
            raise frames.BadFrame("error reply without a code")
        return Reply(
            op,
            frames._CODE.unpack_from(body),
            None,
            str(body[frames._CODE.size :], "utf-8", "replace"),
        )
    if op == frames.Op.FETCH | 0x80:
        if len(body) < frames._FETCHED.size:
            raise frames.BadFrame(f"FETCH reply of {len(body)} bytes")
        fields = frames._FETCHED.unpack_from(body)
        region = body[frames._FETCHED.size :]
        frames.region_record_size(region, fields[5])
        return Reply(op, fields, region)
    layout = _REPLIES.get(op)
    if layout is None or layout.size != len(body):
        raise frames.BadFrame(f"reply 0x{op:02x} with {len(body)} bytes")
    return Reply(op, layout.unpack(body))
