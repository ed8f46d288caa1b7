"""Labels for reports: companies, accounts and brokers. Never part of the stream bytes.

The names come from Faker, whose data changes with its version: that is why nothing
here is hashed, compared or sent to an engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickproof.generators.market import ACCOUNTS, MarketParams
from tickproof.generators.symbols import tickers

if TYPE_CHECKING:
    from faker import Faker

BROKERS: Final = 20


@dataclass(frozen=True)
class Account:
    """The holder of an account number."""

    name: str
    broker: str


@dataclass(frozen=True)
class Universe:
    """companies: symbol -> company name. accounts: number -> account."""

    companies: dict[str, str]
    accounts: dict[int, Account]

    def company(self, symbol: str) -> str:
        """Return the company of a symbol, or the symbol where none is known."""
        return self.companies.get(symbol.rstrip(), symbol)


@cache
def _faker() -> Faker:
    # It takes long to import, and only labels need it.
    from faker import Faker

    return Faker("en_US")


def company_of(symbol: str, seed: int) -> str:
    """Return the company of a symbol in the markets of a seed."""
    faker = _faker()
    faker.seed_instance(f"{seed} {symbol}")
    return faker.company()


def make_universe(params: MarketParams) -> Universe:
    """Return labels for every symbol and account of a market."""
    faker = _faker()
    faker.seed_instance(params.seed)
    brokers = [f"{faker.last_name()} {faker.last_name()} Securities" for _ in range(BROKERS)]
    accounts = {
        number: Account(faker.name(), brokers[number % BROKERS]) for number in range(ACCOUNTS)
    }
    names = tickers(params.seed, params.symbols, params.edges)
    companies = {symbol: company_of(symbol, params.seed) for symbol in names}
    return Universe(companies, accounts)


def write_universe(params: MarketParams, path: Path) -> Universe:
    """Write the labels of a market as readable JSON and return them."""
    universe = make_universe(params)
    document = {
        "format": 1,
        "seed": params.seed,
        "symbols": [{"symbol": s, "company": c} for s, c in universe.companies.items()],
        "accounts": [
            {"account": number, "name": account.name, "broker": account.broker}
            for number, account in universe.accounts.items()
        ],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return universe
