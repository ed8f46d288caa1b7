"""Passthrough: what comes in goes out. The floor of every comparison."""

from tickproof.reference.api import Application, Pipeline, Sink, Source


def application() -> Application:
    """Return the app: records as they are, never decoded."""
    return Application("passthrough", [Pipeline("all", Source(0)).into(Sink(0))])
