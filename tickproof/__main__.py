"""``python -m tickproof``: the command line."""

from tickproof.conformance.cli.main import main

main()
