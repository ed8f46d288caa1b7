"""Where the kit's data folders are, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def fixtures() -> Path:
    """Return the fixtures folder: engines/, mutants/, rogues/, vectors/.

    Raises FileNotFoundError when the installation is not whole.
    """
    for folder in (_PACKAGE / "_fixtures", _PACKAGE.parent / "fixtures"):
        if (folder / "engines").is_dir():
            return folder
    raise FileNotFoundError(f"no fixtures beside {_PACKAGE}: the installation is not whole")


def reference() -> Path:
    """Return the folder of the package ``reference``; raises FileNotFoundError without it."""
    folder = _PACKAGE.parent / "reference"
    if not (folder / "session.py").is_file():
        raise FileNotFoundError(f"no reference beside {_PACKAGE}: the installation is not whole")
    return folder
