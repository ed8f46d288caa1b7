"""The run folder: everything recorded of one run, written once and opened again."""
