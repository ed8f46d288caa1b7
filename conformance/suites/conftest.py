"""Makes the suites work under plain pytest too: ``pytest --pyargs conformance.suites --engine X``."""

from conformance.suites.plugin import *  # noqa: F403
