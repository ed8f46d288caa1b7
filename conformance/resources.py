"""Where the kit's data folders are, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def fixtures() -> Path:
    """Return the fixtures folder: engines/, mutants/, rogues/, vectors/.

    Raises FileNotFoundError when the installation is not whole.
    """
    return _beside("fixtures", "engines")


def reference() -> Path:
    """Return the folder of the package ``reference``; raises FileNotFoundError without it."""
    return _beside("reference", "session.py")


def _beside(name: str, within: str) -> Path:
    """Return a folder that lies beside this package and holds ``within``."""
    folder = _PACKAGE.parent / name
    if not (folder / within).exists():
        raise FileNotFoundError(f"no {name} beside {_PACKAGE}: the installation is not whole")
    return folder
