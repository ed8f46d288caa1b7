"""Row layouts of the binary tables of a run folder, as packed little-endian dtypes."""

from __future__ import annotations

from typing import Final

import numpy as np

#: One row for each advance of a partition's published end, in time order.
PUBLISH: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("end", "<u8")]
)

#: One row for each FETCH that was answered with records [base, end), in time order.
FETCH: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("base", "<u8"), ("end", "<u8")]
)

#: The engine promised never to fetch below ``offset`` again.
RELEASE: Final = np.dtype(
    [("t_ns", "<i8"), ("stream", "<u2"), ("partition", "<u2"), ("offset", "<u8")]
)

#: One process of the engine at one look: CPU seconds since its start; rss in bytes; context
#: switches and wait_ns (ready to run and not running) of its living threads, which fall when
#: a thread ends; the core it ran on last; bytes in the queues of its TCP sockets; the cores
#: 0 to 63 that it may run on, as bits. All rows of a look have one time.
USAGE: Final = np.dtype(
    [("t_ns", "<i8"), ("pid", "<u4"), ("user_s", "<f8"), ("system_s", "<f8"), ("rss", "<i8"),
     ("threads", "<u4"), ("voluntary", "<i8"), ("involuntary", "<i8"), ("wait_ns", "<i8"),
     ("core", "<i4"), ("recv_queue", "<i8"), ("send_queue", "<i8"), ("affinity", "<u8")]
)  # fmt: skip

#: One sample of the machine. Only differences of two samples mean something. busy_s: CPU seconds
#: of all processes, kit_s and engine_s those of the kit and of the engine. steal_s: what a
#: hypervisor took. pressure_us: how long something waited for a core, -1 where untold.
MACHINE: Final = np.dtype(
    [("t_ns", "<i8"), ("busy_s", "<f8"), ("steal_s", "<f8"), ("kit_s", "<f8"),
     ("engine_s", "<f8"), ("pressure_us", "<i8")]
)  # fmt: skip

#: CPU seconds since the previous sample of processes that are neither kit nor engine, for each
#: core that they ran on last; ANY_CORE where that is not known.
OTHERS: Final = np.dtype([("t_ns", "<i8"), ("core", "<u2"), ("cpu_s", "<f8")])
ANY_CORE: Final = 0xFFFF

#: One row for each millisecond that a hiccup recorder asked to wake at: when it woke, and
#: how much later that was. A long hiccup has a row for each millisecond that it covered.
HICCUP: Final = np.dtype([("t_ns", "<i8"), ("late_ns", "<i8")])

#: ticks.bin, one row a tick: when it was published, monotonic nanoseconds.
TICK: Final = np.dtype([("t_ns", "<i8")])
TICKS_FILE: Final = "ticks.bin"


def of_partition(table: np.ndarray, stream: int, partition: int) -> np.ndarray:
    """Return the rows of one partition of one stream, still in time order."""
    return table[(table["stream"] == stream) & (table["partition"] == partition)]
