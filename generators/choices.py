"""Kinds of input that one chooses by name, apart from what makes it: that needs numpy."""

from __future__ import annotations

from typing import Final, Literal, get_args

#: How keys lie among all 64-bit numbers; KeyedParams says more.
KeyShape = Literal["spread", "dense", "same-low-32", "same-low-16", "limits"]
KEY_SHAPES: Final[tuple[KeyShape, ...]] = get_args(KeyShape)
#: How the times of a market's orders and quotes follow each other; MarketParams says more.
EventTimes = Literal["rising", "equal", "backwards", "limits"]
EVENT_TIMES: Final[tuple[EventTimes, ...]] = get_args(EventTimes)
