"""The shape of a profile file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickproof.conformance.scenario import JudgedApp
from tickproof.conformance.strict_toml import Table, matching

Text = Annotated[str, Field(min_length=1, max_length=400)]
#: A time or a rate that is not 0; no more than a day in microseconds.
Positive = Annotated[float, Field(gt=0, le=86_400e6, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Name = Annotated[
    str,
    matching(
        r"[a-z0-9][a-z0-9-]{0,39}",
        "1 to 40 lower-case letters, digits and hyphens, the first no hyphen",
    ),
]


class About(Table):
    """[profile]."""

    name: Name
    what: Text
    source: Text


class Load(Table):
    """[load]: rate in records a second over all streams and partitions."""

    app: JudgedApp
    params: dict[str, str] = Field(default_factory=dict)
    rate: Annotated[int, Field(ge=1, le=10_000_000)]
    tick_us: Annotated[int, Field(ge=100, le=100_000)] = 1_000
    partitions: Annotated[int, Field(ge=1, le=64)] = 4
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    probes_per_s: Annotated[int, Field(ge=1)] | None = None
    symbols: Annotated[int, Field(ge=1, le=3_000)] | None = None
    duration_s: Seconds
    warm_up_s: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)]


class Runs(Table):
    """[runs]: how many are asked for, how many are played at most, how many may be void."""

    # Fewer than 5 that are all under a limit happen too often by chance.
    least: Annotated[int, Field(ge=5, le=30)] = 5
    most: Annotated[int, Field(ge=6, le=30)] = 9
    void_most: Annotated[int, Field(ge=0, le=30)] = 5


class Recovering(Table):
    """[recovering]: who is killed at which part of the input; when p99 must be back."""

    kill: Literal["worker", "workers", "coordinator", "engine"]
    at: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    within_s: Seconds


class Generator(Table):
    """[generator]."""

    late_p99_us: Positive


class Host(Table):
    """[host]."""

    level: Literal["none", "P0", "P1", "P2"]
    hiccup_us: Positive
    foreign: Annotated[float, Field(gt=0, le=4_096, allow_inf_nan=False)]
    noisy: Part


class CoreCounts(Table):
    """[cores]: how many cores kit and engine get, and the generator's real-time priority."""

    kit: Annotated[int, Field(ge=1, le=4_096)]
    engine: Annotated[int, Field(ge=1, le=4_096)]
    priority: Annotated[int, Field(ge=0, le=99)] = 0


class ProfileFile(Table):
    """A whole profile. limits: microseconds by percentile."""

    profile: About
    load: Load
    runs: Runs = Runs()
    limits: dict[str, Positive] = Field(min_length=1)
    recovering: Recovering | None = None
    generator: Generator
    host: Host
    cores: CoreCounts | None = None
