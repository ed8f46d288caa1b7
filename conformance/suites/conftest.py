"""Plain pytest works too: ``pytest --pyargs conformance.suites --engine NAME``."""

from conformance.suites.plugin import *  # noqa: F403
