"""Choices of how a recorded market is read, apart from the reader: it needs pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Ties = Literal["quote-first", "order-first", "file"]
TIES: Final[tuple[Ties, ...]] = get_args(Ties)
#: What becomes of a quote without a bid or an offer. zero: the side has the price 0, as the rule
#: counts it. reject: both have, so that the quote rejects. skip: the quote is left out.
MissingSide = Literal["zero", "reject", "skip", "refuse"]
MISSING_SIDES: Final[tuple[MissingSide, ...]] = get_args(MissingSide)


@dataclass(frozen=True)
class Reading:
    """Choices of how two files are read. missing_side None: as "zero", and it is a doubt."""

    strict: bool = False
    missing_side: MissingSide | None = None
    ties: Ties = "quote-first"

    def __post_init__(self) -> None:
        if type(self.strict) is not bool:
            raise ValueError(f"recipe: strict: expected true or false, got {self.strict!r}")
        for name, known in (("missing_side", (None, *MISSING_SIDES)), ("ties", TIES)):
            if (got := getattr(self, name)) not in known:
                expected = ", ".join(filter(None, known))
                raise ValueError(f"recipe: {name}: expected one of {expected}; got {got!r}")

    @classmethod
    def of(cls, recipe: dict[str, Any]) -> Reading:
        """Return the choices of a recipe; ValueError for one that does not exist."""
        return cls(recipe["strict"], recipe["missing_side"], recipe["ties"])

    def options(self) -> list[str]:
        """Return the options of a command line that make these choices."""
        words = ["--strict"] if self.strict else []
        words += ["--missing-side", self.missing_side] if self.missing_side else []
        return [*words, "--ties", self.ties] if self.ties != "quote-first" else words


#: What is done if nothing is chosen.
USUAL: Final = Reading()
