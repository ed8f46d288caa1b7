"""Tickproof: the one name that an installed kit takes.

In a checkout its parts are links to the folders of the same name, so that the same imports
work there and from the wheel (docs/decisions/0009).
"""
