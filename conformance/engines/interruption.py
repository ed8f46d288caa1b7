"""Early end of a command: Ctrl-C, SIGTERM, a closed terminal, or output that nobody reads.

The first of them comes as KeyboardInterrupt in the main thread, so that engines are ended and runs
recorded in one way. The exit status is that of a process that the signal ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: So long (seconds) an interrupt waits that was dropped, for the end of what dropped it.
_AGAIN_S: Final = 0.01
_WORDS: Final = {
    signal.SIGINT: "interrupted with Ctrl-C",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
    signal.SIGPIPE: "ended because its output was closed",
}
_cause = signal.SIGINT
_stopping = False
#: Levels of `deferred` that are entered, and whether the interrupt came inside one.
_deferring = 0
_due = False
#: Whether a second Ctrl-C ends this process without further ado.
_ends_at_once = True


def listen(*numbers: signal.Signals) -> None:
    """Take signals (SIGINT, SIGTERM and SIGHUP unless others are named) as one interrupt.

    One that is ignored stays ignored. To be called in the main thread.
    """
    sys.unraisablehook = partial(_unraisable, sys.unraisablehook)
    for number in numbers or (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def listen_as_worker() -> None:
    """Take the signals as `listen` does; whoever started this process ends it if that is too slow.

    SIGINT and SIGTERM may come twice: from the terminal, and passed on by the session.
    """
    global _ends_at_once
    _ends_at_once = False
    listen()


def _stop(number: int, _frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        _leave_terminal()
    if _stopping:
        if number == signal.SIGINT and _ends_at_once:
            # Whoever asks twice does not wait for reports. Engines end with their reapers.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        return  # what was started is being ended already
    if _cause is not signal.SIGPIPE:
        _note(signal.Signals(number))
    _interrupt()


def _unraisable(
    others: Callable[[UnraisableHookArgs], object], dropped: UnraisableHookArgs
) -> None:
    """Let an interrupt come again that Python dropped, as it came in a finalizer."""
    global _stopping
    if dropped.exc_type is not KeyboardInterrupt:
        others(dropped)
        return
    _stopping = False
    number = signal.SIGTERM if _cause is signal.SIGPIPE else _cause
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _interrupt() -> None:
    """Raise KeyboardInterrupt, at the end of `deferred` if that is entered."""
    global _stopping, _due
    _stopping = True
    if _deferring:
        _due = True
        return
    raise KeyboardInterrupt


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Keep the first interrupt until the end: what is written meanwhile is written whole."""
    global _deferring, _due
    _deferring += 1
    try:
        yield
    finally:
        _deferring -= 1
    if _due and not _deferring:
        _due = False
        raise KeyboardInterrupt


def _note(cause: signal.Signals) -> None:
    global _cause
    _cause = cause


def _leave_terminal() -> None:
    """Send what is still written to a terminal nowhere: writing to a closed one is an error."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                _to_nowhere(descriptor)


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def unread(descriptor: int) -> bool:
    """Say whether a descriptor is a pipe or a socket whose other end is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def output_closed(descriptor: int) -> None:
    """Stop, in whatever thread this is noticed: nobody reads ``descriptor``.

    Raises KeyboardInterrupt in the main thread; others go on until it has ended them. What is
    still written there goes nowhere.
    """
    _to_nowhere(descriptor)
    if _stopping:
        return
    _note(signal.SIGPIPE)
    if threading.current_thread() is threading.main_thread():
        _interrupt()
    elif signal.getsignal(signal.SIGTERM) is _stop:
        os.kill(os.getpid(), signal.SIGTERM)


def status() -> int:
    """Return the exit status of a command that was ended before its time."""
    return 128 + _cause


def words() -> str:
    """Say what ended it."""
    return _WORDS[_cause]


def to_pass_on() -> signal.Signals:
    """Return the signal by which processes of the kit are told."""
    return signal.SIGINT if _cause is signal.SIGINT else signal.SIGTERM
