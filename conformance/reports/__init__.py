"""Reports of a session: JSON, JUnit, terminal summary, live progress."""
