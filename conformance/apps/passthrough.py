"""App passthrough: each record as it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tickproof.conformance.apps.app import App, Lane, Leeway, Messages, placed
from tickproof.conformance.checkers.arrivals import first_arrivals
from tickproof.conformance.checkers.expected import payload_words
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.matching import Matching, match_payloads
from tickproof.conformance.checkers.multiset import check_multiset
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import OutputLog
from tickproof.generators.layouts import opaque
from tickproof.generators.spread_rule import FIVE_CENTS

#: Records whose answers are held at once.
_CHUNK: Final = 1 << 17


class Passthrough(App):
    """Each record as it came."""

    name = "passthrough"
    about = "passthrough gives every record back as it is."
    kind = "payloads"
    stateless = True
    any_size = True
    one_each = True
    members = {"data": ("string", "bytes")}

    def answer(self, records: np.ndarray) -> np.ndarray:
        """Return the outputs of records."""
        return records

    def _inputs(self, history: History) -> list[np.ndarray]:
        (layout,) = self.input_layouts(history.partitions[0].record_size)
        return history.inputs(layout)

    def check(self, history: History, log: OutputLog, leeway: Leeway) -> Findings:
        """Compare outputs and answers as multisets."""
        return check_multiset(self._answers(history), log, fetches=leeway.first_fetches[0])

    def _answers(self, history: History) -> Iterator[np.ndarray]:
        for partition in self._inputs(history):
            for start in range(0, len(partition), _CHUNK):
                yield self.answer(np.array(partition[start : start + _CHUNK]))

    def expected(self, inputs: Sequence[np.ndarray], limit: int = FIVE_CENTS) -> np.ndarray | None:
        """Return an answer for each record."""
        return self.answer(np.concatenate(inputs))

    def match(self, history: History, log: OutputLog) -> Matching | None:
        """Match outputs by their bytes."""
        (layout,) = self.input_layouts(history.partitions[0].record_size)
        return match_payloads(placed(history, layout), log, self.answer)

    def lanes(self, history: History) -> Iterator[Lane]:
        """Measure each record."""
        for column, part in enumerate(self._inputs(history)):
            words, tagged = payload_words(part, self.answer), np.zeros(len(part), bool)
            yield Lane(column, np.arange(len(part)), words, tagged)

    def arrivals(self, words: np.ndarray, log: OutputLog) -> np.ndarray:
        """Take the k-th output of a value as the answer to its k-th input."""
        return first_arrivals(words, payload_words(log.payloads), log.times)

    def messages(self, payloads: np.ndarray) -> Messages:
        """Return the bytes of each record in hexadecimal."""
        size, data = payloads.itemsize, payloads.tobytes().hex()
        values = [
            b'{"data":"%s"}' % data[at : at + 2 * size].encode()
            for at in range(0, 2 * size * len(payloads), 2 * size or 1)
        ] or [b'{"data":""}'] * len(payloads)
        return Messages([None] * len(values), values)

    def fill(self, payloads: np.ndarray, columns: Mapping[str, Any]) -> None:
        """Take the bytes from their hexadecimal form; they have the size of the input."""
        data = bytes.fromhex("".join(columns["data"]))
        if any(len(text) != 2 * payloads.itemsize for text in columns["data"]):
            raise ValueError("expected data of another size")
        if data:
            payloads[:] = np.frombuffer(data, opaque(payloads.itemsize))
