"""Headers of Kafka's record batches; the records themselves are never looked at."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Offset, length, leader epoch, magic, checksum, attributes, last offset delta, two times,
#: producer id, epoch, sequence, records.
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
#: Bytes of a batch that its length does not count.
_BEFORE: Final = 12
#: The only format that brokers still write.
_MAGIC: Final = 2
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class Batch(NamedTuple):
    """``size`` records: offsets from ``first`` to before ``end``.

    producer_id -1: no idempotent producer. control: a mark of the broker that ends a
    transaction, no record of a client.
    """

    first: int
    end: int
    size: int
    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    control: bool


def batches(records: memoryview) -> Iterator[Batch]:
    """Return the batches of a records field; one that is cut off at the end is left out."""
    at, size = 0, len(records)
    while at + _BATCH.size <= size:
        first, length, _, magic, _, attributes, delta, _, _, producer_id, epoch, sequence, count = (
            _BATCH.unpack_from(records, at)
        )
        end = at + _BEFORE + length
        if magic != _MAGIC or length < _BATCH.size - _BEFORE or end > size:
            return
        yield Batch(
            first,
            first + delta + 1,
            count,
            producer_id,
            epoch,
            sequence,
            bool(attributes & _TRANSACTIONAL),
            bool(attributes & _CONTROL),
        )
        at = end
