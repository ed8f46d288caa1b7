"""An interrupt reaches the main thread wherever it comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: A finalizer in which the signal comes: Python drops what is raised there.
DROPS = """
import os, signal, sys, time
from tickproof.conformance.engines import interruption

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})
        for _ in range(1000):
            pass
        print("not reached")

interruption.{listen}()
try:
    thing = Thing()
    del thing
    time.sleep(60)
except KeyboardInterrupt:
    print(interruption.words())
"""


@pytest.mark.parametrize("listen", ["listen", "listen_as_worker"])
@pytest.mark.parametrize(
    ("number", "words"), [("SIGINT", "interrupted with Ctrl-C"), ("SIGTERM", "ended by SIGTERM")]
)
def test_an_interrupt_in_a_finalizer_comes_again(listen: str, number: str, words: str) -> None:
    program = DROPS.format(number=number, listen=listen)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{words}\n", "")


def test_what_else_python_drops_is_still_told() -> None:
    program = """
from tickproof.conformance.engines import interruption

class Thing:
    def __del__(self):
        raise ValueError("dropped")

interruption.listen()
Thing()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ValueError: dropped" in done.stderr
