"""Placement of records in partitions: some may be empty, crowded, early or late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tickproof.generators.hashing import hashed
from tickproof.generators.partitioner import OF_CLIENTS, AsTexts, decimals, partitions_of

#: Decides the partition of a key: a hash of the kit's own, or one that clients of Kafka have.
OWN: Final = "splitmix64"
PARTITIONERS: Final = (OWN, *OF_CLIENTS)
#: Keys that are tried at once until all partitions have theirs.
_TRIED: Final = 1 << 14
#: Fixed for good: which partition a key or symbol is in must not depend on the seed.
_PARTITION_KEY: Final = 0x7469636B70726F6F
#: The part of the run within which partitions that end early get everything, and the share
#: of the records (of the keys, where there are any) that all of them have together.
EARLY_PART: Final = 0.1
_EARLY_SHARE: Final = EARLY_PART / 2
_BITS: Final = 24
#: The part of the run before which nothing of a partition that begins late is there.
LATE_PART: Final = 0.7
#: Keys of a recipe that number partitions.
NUMBERING: Final = ("empty", "ended_early", "begin_late")


class Misplaced(ValueError):
    """A key of a recipe that fits no placement; what is expected there, and was got."""

    def __init__(self, key: str, expected: str, got: str = "") -> None:
        super().__init__(f"recipe: {key}: expected {expected}{f', got {got}' if got else ''}")
        self.key, self.expected = key, expected


@dataclass(frozen=True)
class Placement:
    """Placement of the records of a run in partitions.

    empty: partitions that get no record. ended_early: partitions that get all their records,
    and END, within EARLY_PART of the run. begin_late: partitions that get nothing before LATE_PART
    of it, and then all that others get all the time. ended_stream: a stream of which all partitions
    end early, None: none. skew: share of the other records that fall
    into one partition, the first that is neither empty nor short; 0: all get as much. Where a key
    decides the partition, shares are of the keys. partitioner: the kit's own places any key as
    wished; with
    those of Kafka's clients the key alone decides, so keys have to be chosen (``choose``).
    """

    partitions: int
    empty: tuple[int, ...] = ()
    ended_early: tuple[int, ...] = ()
    begin_late: tuple[int, ...] = ()
    ended_stream: int | None = None
    skew: float = 0.0
    partitioner: str = OWN
    _short: np.ndarray = field(init=False, repr=False, compare=False)
    _lasting: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in NUMBERING:
            _check_numbers(name, getattr(self, name), self.partitions)
        if type(self.skew) not in (int, float) or not 0 <= self.skew <= 1:
            raise Misplaced("skew", "a share 0 to 1", repr(self.skew))
        if self.ended_stream is not None and (
            type(self.ended_stream) is not int or not 0 <= self.ended_stream <= 1
        ):
            raise Misplaced("ended_stream", "a stream, 0 or 1", repr(self.ended_stream))
        if self.partitioner not in PARTITIONERS:
            raise ValueError(
                f"recipe: partitioner: expected one of {', '.join(PARTITIONERS)}; "
                f"got {self.partitioner!r}"
            )
        filled = [p for p in range(self.partitions) if p not in self.empty]
        if not filled:
            raise Misplaced("empty", f"at least one of {self.partitions} partitions left out")
        lasting = [p for p in filled if p not in self.ended_early]
        if not lasting:
            raise Misplaced("ended_early", "at least one partition that has records left out")
        if late := sorted({*self.begin_late} - {*lasting}):
            expected = "partitions that are neither empty nor end early"
            raise Misplaced("begin_late", expected, str(late[0]))
        if set(lasting) == {*self.begin_late}:
            raise Misplaced("begin_late", "a partition that goes on left out")
        short = [p for p in filled if p in self.ended_early]
        object.__setattr__(self, "_short", np.array(short, np.int64))
        object.__setattr__(self, "_lasting", np.array(lasting, np.int64))

    @classmethod
    def of(cls, recipe: dict[str, Any]) -> Placement:
        """Return the placement of a complete recipe; ValueError names a wrong key."""
        for name in NUMBERING:
            if not isinstance(recipe[name], (list, tuple)):
                raise Misplaced(name, "a list of partitions", repr(recipe[name]))
        return cls(
            recipe["partitions"],
            ended_stream=recipe["ended_stream"],
            skew=recipe["skew"],
            partitioner=recipe["partitioner"],
            **{name: tuple(recipe[name]) for name in NUMBERING},
        )

    @property
    def chooses_keys(self) -> bool:
        """True if keys have to be chosen so that records fall as they should."""
        wishes = self.empty or self.ended_early or self.skew
        return self.partitioner != OWN and bool(wishes)

    def of_keys(self, keys: np.ndarray, as_texts: AsTexts = decimals) -> np.ndarray:
        """Return the partition (int64) of each key or symbol word (uint64).

        as_texts: the bytes of a message's key.
        """
        if self.partitioner == OWN:
            return self._wished(keys)
        return partitions_of(self.partitioner, as_texts(keys), self.partitions)

    def choose(self, count: int, partition: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the numbers (uint64) of ``count`` keys of many, in place of the first ones.

        partition: returns that of keys by their number. The first that fit are taken, so that
        each partition gets the share of the keys that it should have.
        """
        wished = self._wished(np.arange(count, dtype=np.uint64))
        chosen = np.empty(count, np.uint64)
        open_ = {p: np.flatnonzero(wished == p) for p in np.unique(wished).tolist()}
        tried = 0
        while open_:
            numbers = np.arange(tried, tried + _TRIED, dtype=np.uint64)
            found = partition(numbers)
            for p, places in list(open_.items()):
                fitting = numbers[found == p][: len(places)]
                chosen[places[: len(fitting)]] = fitting
                open_[p] = places[len(fitting) :]
                if not len(open_[p]):
                    del open_[p]
            tried += _TRIED
        return chosen

    def _wished(self, keys: np.ndarray) -> np.ndarray:
        if len(self._lasting) + len(self._short) == 1:
            return np.full(len(keys), self._lasting[0])
        bits = hashed(_PARTITION_KEY, keys)
        found = self._spread(bits)
        if len(self._short):
            short = _below(bits >> 40, _EARLY_SHARE)
            found[short] = self._short[(bits[short] % len(self._short)).astype(np.int64)]
        return found

    def in_turn(self, start: int, stop: int) -> np.ndarray:
        """Return the partition (int64) of records [start, stop), which have no key."""
        if self.skew or len(self._short):
            return self._wished(np.arange(start, stop, dtype=np.uint64))
        return self._lasting[np.arange(start, stop) % len(self._lasting)]

    def _spread(self, bits: np.ndarray) -> np.ndarray:
        """Return which of the lasting partitions 64-bit hashes fall into."""
        lasting = self._lasting
        if not self.skew or len(lasting) == 1:
            return lasting[(bits % len(lasting)).astype(np.int64)]
        others = lasting[1:][(bits % (len(lasting) - 1)).astype(np.int64)]
        return np.where(_below((bits >> 16) & 0xFFFFFF, self.skew), lasting[0], others)

    def timed(self, plan: np.ndarray) -> np.ndarray:
        """Return a plan in which the partitions that end early, or begin late, do so.

        plan: cumulative records, shape (ticks + 1, streams * partitions), a partition in the
        same column of every stream.
        """
        ticks = len(plan) - 1
        late = np.isin(np.arange(plan.shape[1]) % self.partitions, self.begin_late)
        first = int(LATE_PART * ticks)
        row = np.maximum(np.arange(ticks + 1) - first, 0) * ticks // max(ticks - first, 1)
        timed = self._hastened(plan)
        timed[:, late] = plan[row][:, late]
        return timed

    def _hastened(self, plan: np.ndarray) -> np.ndarray:
        """Return a plan in which the partitions that end early are done early.

        Others are published as before, so that all that is out when
        the last short one ends is EARLY_PART of the run, or a tick more.
        """
        ticks = len(plan) - 1
        stream, partition = np.divmod(np.arange(plan.shape[1]), self.partitions)
        short = np.isin(partition, self._short) | (stream == self.ended_stream)
        total, own = int(plan[-1].sum()), int(plan[-1][short].sum())
        if not own:
            return plan.copy()
        # While x of the ticks pass, own + x * (total - own) records come out.
        part = max(EARLY_PART * total - own, 0) / max(total - own, 1)
        last = max(1, int(part * ticks))
        row = np.minimum(-(-np.arange(ticks + 1) * ticks // last), ticks)
        hastened = plan.copy()
        hastened[:, short] = plan[row][:, short]
        return hastened


def _check_numbers(name: str, numbers: tuple[int, ...], partitions: int) -> None:
    for number in numbers:
        if type(number) is not int or not 0 <= number < partitions:
            raise Misplaced(name, f"partitions 0 to {partitions - 1}", repr(number))
    if len(set(numbers)) != len(numbers):
        raise Misplaced(name, "no partition twice", str(list(numbers)))


def _below(bits: np.ndarray, share: float) -> np.ndarray:
    """Tell which 24-bit values lie in the first ``share`` of all."""
    return bits < round(share * (1 << _BITS))
