"""Loads `pytest_plugin`, and so the kit, in the processes that play runs side by side.

Named to pytest before it, so that they spend no more on it than the command did.
"""

from __future__ import annotations

from tickproof.conformance.engines.loading import loading

with loading():
    from tickproof.conformance.session import pytest_plugin as pytest_plugin
