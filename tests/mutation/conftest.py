"""Cosmic-ray comes with the extra `mutation`."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("cosmic_ray") else ["test_*.py"]
