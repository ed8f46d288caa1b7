"""Short profiles for sessions of tests: wide, so that no machine is too slow for them."""

from __future__ import annotations

from pathlib import Path

TEXT = """
[profile]
name = "short"
what = "Passthrough, for tests."
source = "Nobody's."

[load]
app = "{app}"
rate = {rate}
tick_us = 5_000
partitions = 2
workers = 1
duration_s = {duration}
warm_up_s = 0.2

[runs]
least = 5
most = 6
void_most = 0

[limits]
p50 = {p50}
p99 = 30_000_000

[generator]
late_p99_us = 30_000_000

[host]
level = "{level}"
hiccup_us = 30_000_000
foreign = 4_000.0
noisy = 1.0
{more}
"""


def write(
    folder: Path,
    *,
    app: str = "passthrough",
    rate: int = 2_000,
    duration: float = 1.0,
    p50: float = 20_000_000.0,
    level: str = "none",
    more: str = "",
) -> Path:
    """Write a profile; return its path."""
    path = folder / "short.toml"
    path.write_text(
        TEXT.format(app=app, rate=rate, duration=duration, p50=p50, level=level, more=more)
    )
    return path
