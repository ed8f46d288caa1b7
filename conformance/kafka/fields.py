"""Fields of Kafka messages, read one after the other."""

from __future__ import annotations

import struct
from typing import Final

from tickproof.conformance.errors import TickproofError

UUID_BYTES: Final = 16
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
#: A varint of 32 bits has no more bytes.
_VARINT_BYTES: Final = 5


class Malformed(TickproofError):
    """Bytes that are no message of the kind that they should be."""


class Fields:
    """Reads a message from ``at`` on; all methods raise Malformed where it ends too early.

    flexible: lengths are varints, and structures end with tagged fields.
    """

    __slots__ = ("at", "data", "flexible")

    def __init__(self, data: memoryview, at: int, flexible: bool) -> None:
        self.data, self.at, self.flexible = data, at, flexible

    def skip(self, size: int) -> None:
        """Pass over some bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise Malformed(f"{size} bytes at offset {self.at} of {len(self.data)}")
        self.at += size

    def i8(self) -> int:
        """Read a byte, without sign."""
        self.skip(1)
        return self.data[self.at - 1]

    def i16(self) -> int:
        """Read an int16."""
        self.skip(2)
        return int(_I16.unpack_from(self.data, self.at - 2)[0])

    def i32(self) -> int:
        """Read an int32."""
        self.skip(4)
        return int(_I32.unpack_from(self.data, self.at - 4)[0])

    def i64(self) -> int:
        """Read an int64."""
        self.skip(8)
        return int(_I64.unpack_from(self.data, self.at - 8)[0])

    def varint(self) -> int:
        """Read an unsigned varint."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.i8()
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise Malformed(f"a varint of more than {_VARINT_BYTES} bytes before offset {self.at}")

    def length(self) -> int:
        """Read the length of an array or of bytes: -1 for null."""
        return self.varint() - 1 if self.flexible else self.i32()

    def text(self) -> str | None:
        """Read a string, which may be null."""
        size = self.varint() - 1 if self.flexible else self.i16()
        if size < 0:
            return None
        begin = self.at
        self.skip(size)
        try:
            return str(self.data[begin : self.at], "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"a string at offset {begin}: {error}") from None

    def uuid(self) -> bytes:
        """Read a UUID as its 16 bytes."""
        self.skip(UUID_BYTES)
        return bytes(self.data[self.at - UUID_BYTES : self.at])

    def blob(self) -> memoryview:
        """Read bytes; null counts as empty."""
        size = max(self.length(), 0)
        begin = self.at
        self.skip(size)
        return self.data[begin : self.at]

    def items(self) -> range:
        """Read the length of an array, to be iterated over; null counts as empty."""
        size = max(self.length(), 0)
        if size > len(self.data) - self.at:
            raise Malformed(f"an array of {size} items in {len(self.data) - self.at} bytes")
        return range(size)

    def tags(self) -> None:
        """Pass over tagged fields, where there may be some."""
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.skip(self.varint())
