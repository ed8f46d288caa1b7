"""Use of the machine by a run, and disturbance of the run by the machine."""
