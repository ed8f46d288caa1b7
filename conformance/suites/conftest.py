"""Loads the plugin that makes items of the suites, also where no engine is named."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Load it by its name: it knows the suites, not they it."""
    config.pluginmanager.import_plugin("tickproof.conformance.session.pytest_plugin")
