"""What ends a command before its time: Ctrl-C, SIGTERM, or output that nobody reads any more.

Each comes as KeyboardInterrupt in the main thread, so that engines are ended and runs recorded
in one way. The exit status is that of a process that the signal ended.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from types import FrameType
from typing import Final

_WORDS: Final = {
    signal.SIGINT: "interrupted with Ctrl-C",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGPIPE: "ended because its output was closed",
}
_cause = signal.SIGINT
_stopping = False


def listen(*numbers: signal.Signals) -> None:
    """Take signals, SIGTERM unless others are named, as Ctrl-C; only the first one counts.

    One that is ignored stays ignored. To be called in the main thread.
    """
    for number in numbers or (signal.SIGTERM,):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def _stop(number: int, _frame: FrameType | None) -> None:
    global _stopping
    if _stopping:
        return  # what was started is being ended already
    _stopping = True
    if _cause is not signal.SIGPIPE:
        _note(signal.Signals(number))
    raise KeyboardInterrupt


def _note(cause: signal.Signals) -> None:
    global _cause
    _cause = cause


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
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    if _stopping:
        return
    _note(signal.SIGPIPE)
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    if signal.getsignal(signal.SIGTERM) is _stop:
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
