"""The report of a session, or of a run, as one HTML file that needs nothing beside it."""
