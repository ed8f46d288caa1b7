"""Where the kit's data folders are, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from tickproof.conformance.errors import RequestError

_PACKAGE = Path(__file__).resolve().parent


def fixtures() -> Path:
    """Return the fixtures folder: engines/, profiles/, vectors/; in a checkout also mutants/.

    Raises FileNotFoundError when the installation is not whole.
    """
    return _beside("fixtures", "engines")


def require_checkout(what: str) -> None:
    """Raise RequestError unless the kit is a checkout; the wheel holds nothing to test the kit."""
    if not (fixtures() / "mutants").is_dir():
        raise RequestError(
            f"{what}: needs a checkout of the repository, it is not in the wheel: "
            f"git clone it, and pip install -e . there; got an installation in {_PACKAGE.parent}"
        )


def reference() -> Path:
    """Return the folder of the package ``reference``; raises FileNotFoundError without it."""
    return _beside("reference", "session.py")


def _beside(name: str, within: str) -> Path:
    """Return a folder that lies beside this package and holds ``within``."""
    folder = _PACKAGE.parent / name
    if not (folder / within).exists():
        raise FileNotFoundError(f"no {name} beside {_PACKAGE}: the installation is not whole")
    return folder
