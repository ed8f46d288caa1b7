"""The rule of Market Spread, and the unit of its prices.

That is a ten-thousandth of a dollar, or as much finer as a recorded market asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

#: Decimal places of the unit, unless a market needs more.
DECIMALS: Final = 4
#: The finest unit: five cents have room in 64 bits.
MOST_DECIMALS: Final = 18
#: Largest price in any unit: 40 times it has room in 64 bits, and a double holds it exactly.
MAX_PRICE: Final = 2**53


def decimals_of(recipe: Mapping[str, Any]) -> int:
    """Return the decimal places of a recipe's prices; ValueError for no such number."""
    found = recipe.get("price_decimals")
    if found is None:
        return DECIMALS
    if type(found) is not int or not DECIMALS <= found <= MOST_DECIMALS:
        expected = f"a whole number {DECIMALS} to {MOST_DECIMALS}"
        raise ValueError(f"recipe: price_decimals: expected {expected}, got {found!r}")
    return found


def spread_limit(decimals: int) -> int:
    """Return five cents, from which on a spread rejects, in the unit of prices."""
    return int(5 * 10 ** (decimals - 2))


#: Five cents, unless a market has a finer unit.
FIVE_CENTS: Final = spread_limit(DECIMALS)
#: Five per cent of the midpoint, in whole numbers: 40 * spread >= bid + offer.
RATIO: Final = 40


def rejects(
    bid: np.ndarray, offer: np.ndarray, quote_id: np.ndarray, limit: int = FIVE_CENTS
) -> np.ndarray:
    """Return a mask: reject without a quote (id 0), at five cents or five per cent of spread."""
    spread = offer - bid
    return (quote_id == 0) | (spread >= limit) | (RATIO * spread >= bid + offer)
