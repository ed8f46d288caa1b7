"""Levels of isolation: what an engine is kept from, and which of them this machine can give."""

from __future__ import annotations

import enum
import functools
import os
import pwd
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tickproof.conformance.engines.network import Network
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import RequestError

if TYPE_CHECKING:
    from tickproof.conformance.engines.disk import Disk
    from tickproof.conformance.engines.spec import EngineSpec

_SANDBOX: Final = Path(__file__).with_name("sandbox.py")
_TRIAL_S: Final = 30.0


class Level(enum.StrEnum):
    """Means that keep an engine from the evidence, the strongest first."""

    SANDBOX = "sandbox"  # namespaces of its own: only its state outlives it
    USER = "user"  # another user than the kit's: the run folder is closed to it
    NONE = "none"  # nothing but folders of its own


@dataclass(frozen=True)
class Isolation:
    """The isolation of an engine.

    hidden: absolute folders that it may not see. hosts: on so many hosts of a network of our own
    it runs, 0 for none but this machine. network: these hosts, while a run lasts. around: files
    and folders that a sandbox hides, too: what else the session writes. writable: folders that a
    sandbox leaves as they are; with any it hides nothing, and has the machine's network. disk: what
    serves the folder of states in a sandbox, while a run lasts; None: it is the folder itself.
    """

    level: Level = Level.NONE
    hidden: tuple[Path, ...] = ()
    hosts: int = 0
    network: Network | None = None
    around: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    disk: Disk | None = None

    @property
    def unseen(self) -> list[Path]:
        """Paths that a sandbox hides beside the kit that runs; none lies in another."""
        paths = {path.resolve() for path in (*self.hidden, *self.around, *_other_kits())}
        return sorted(path for path in paths if paths.isdisjoint(path.parents))

    def prepare(self, workspace: Workspace) -> None:
        """Close the hidden folders to the engine's user, and give it those of its workspace."""
        if self.level != Level.USER:
            return
        for folder in self.hidden:
            folder.chmod(0o700)
        user, group = other_user()
        workspace.root.chmod(0o711)
        for folder in workspace.folders:
            os.chown(folder, user, group)
        for folder in workspace.states.iterdir():
            os.chown(folder, user, group, follow_symlinks=False)


UNPROTECTED: Final = Isolation()


@functools.cache
def _other_kits() -> tuple[Path, ...]:
    """Return what would judge and generate in other kits that this Python could import.

    Who runs the kit in its checkout may have it installed, too.
    """
    own = Path(__file__).resolve().parents[1]
    kits = {Path(entry or ".", "tickproof").resolve() for entry in sys.path}
    parts = {(kit / part).resolve() for kit in kits for part in ("conformance", "generators")}
    return tuple(part for part in parts if part.is_dir() and part.parent != own.parent)


def other_user() -> tuple[int, int]:
    """Return uid and gid of the user that owns nothing."""
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return nobody.pw_uid, nobody.pw_gid


def best(spec: EngineSpec) -> Level:
    """Return the strongest level that this machine gives to an engine."""
    return next(level for level in Level if not obstacle(level, spec))


def demand(level: Level, spec: EngineSpec) -> None:
    """Raise RequestError, with what stands in the way, where a level cannot be had."""
    if why := obstacle(level, spec):
        raise RequestError(f"--isolation {level}: this machine cannot give it: {why}")


def obstacle(level: Level, spec: EngineSpec) -> str:
    """Say what keeps an engine from being run at a level, or ""."""
    if level == Level.SANDBOX:
        return sandbox_obstacle()
    if level == Level.USER:
        return _user_obstacle(spec)
    return ""


def sandbox_obstacle() -> str:
    """Say what keeps a program from being run in a sandbox, or ""."""
    return _trial()


def disk_obstacle() -> str:
    """Say what keeps a sandbox from having a disk of its own, or ""."""
    return sandbox_obstacle() or _trial("disk")


@functools.cache
def _trial(*options: str) -> str:
    """Make a sandbox; say what kept it from being made, or ""."""
    try:
        workspace = Workspace()
        try:
            tried = subprocess.run(
                [sys.executable, "-I", "-S", str(_SANDBOX), str(workspace.root), *options],
                capture_output=True,
                timeout=_TRIAL_S,
                check=False,
            )
        finally:
            workspace.remove()
    except subprocess.TimeoutExpired:
        return f"it took longer than {_TRIAL_S:g} s"
    except OSError as error:
        return f"a sandbox cannot be tried out: {error}"
    last = tried.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return (last or f"status {tried.returncode}") if tried.returncode else ""


def _user_obstacle(spec: EngineSpec) -> str:
    if os.geteuid() != 0:
        return "only root may start programs as another user"
    if spec.preparation() and (why := sandbox_obstacle()):
        return f"prepare could change the kit, as it runs outside of a sandbox: {why}"
    user, group = other_user()
    try:
        if why := _user_rights_obstacle(user, group):
            return why
        for path, right in ((spec.command()[0], "-x"), (str(spec.path), "-r")):
            tried = subprocess.run(
                ["test", right, path], user=user, group=group, extra_groups=[], check=False
            )
            if tried.returncode:
                return f"user {user} may not reach {path}"
    except OSError as error:
        return f"programs cannot be started as user {user}: {error}"
    return ""


@functools.cache
def _user_rights_obstacle(user: int, group: int) -> str:
    """Try what is done at this level: give folders away, start and kill a program as another user.

    Even root may do none of this, for it may lack capabilities. Raises OSError if it cannot start.
    """
    workspace = Workspace()
    try:
        Isolation(Level.USER).prepare(workspace)
    except OSError as error:
        return f"folders cannot be given to user {user}: {error}"
    finally:
        workspace.remove()
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, user=user, group=group, extra_groups=[]
    ) as waiting:  # it ends with stdin, if it cannot be killed
        try:
            waiting.kill()
        except OSError as error:
            return f"programs of user {user} cannot be killed: {error}"
    return ""
