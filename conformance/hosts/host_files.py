"""Reading files of a host below a root: text, numbers, lists and masks of cores."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.text import shown

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_LIST = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*")
_MASK = re.compile(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{8})*")
_ONLINE = "sys/devices/system/cpu/online"
_ISOLATED = "sys/devices/system/cpu/isolated"
_MACHINE, _MADE_BY = "sys/class/dmi/id", ("sys_vendor", "product_name")
_VIRTUAL = re.compile(
    r"QEMU|KVM|VMware|VirtualBox|Xen|Virtual Machine|Google Compute|OpenStack|Firecracker"
    r"|Amazon EC2 (?!.*metal)"
)
_PIECE = 1 << 16
#: No machine has as many cores: a list beyond it is malformed, not a job for memory.
_MOST_CORES = 1 << 16


class Unobservable(TickproofError):
    """A file that is absent, unreadable or malformed. path: absolute, as on the host."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class HostFiles:
    """The files of a host. What has been read once is not read again.

    root: every path is read below it. named: the measuring cores; where none are named, they
    are the isolated ones, and where none are isolated, all that are online.
    """

    def __init__(self, root: Path = Path("/"), named: Iterable[int] = ()) -> None:
        self.root = root
        self.named = tuple(sorted(set(named)))
        self._read: dict[str, str] = {}

    @property
    def live(self) -> bool:
        """True if this is the host that the kit runs on, and not a tree of files."""
        return self.root == Path("/")

    def text(self, path: str, *, fresh: bool = False) -> str:
        """Return a whole file, stripped. ``path`` has no leading slash."""
        if fresh or path not in self._read:
            self._read[path] = self.raw(path).decode("utf-8", "replace").strip()
        return self._read[path]

    def raw(self, path: str) -> bytes:
        """Return the bytes of a file; raises Unobservable."""
        try:
            with (self.root / path).open("rb", buffering=0) as file:
                # In pieces: for a file of /proc the kernel reserves as much as is asked for.
                pieces = list(iter(lambda: file.read(_PIECE), b""))
                return b"".join(pieces)
        except OSError as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise Unobservable(f"/{path}", "absent" if absent else _reason(error)) from error

    def number(self, path: str) -> int:
        """Return a file that holds one whole number."""
        text = self.text(path)
        if not _NUMBER.fullmatch(text):
            raise malformed(path, text)
        return int(text)

    def cores_in(self, path: str) -> tuple[int, ...]:
        """Return a file that holds a list of cores such as 0-3,8; () where it is empty."""
        text = self.text(path)
        # What kernels print for no cores at all.
        if text in ("", "(null)"):
            return ()
        cores = parse_list(text)
        if cores is None:
            raise malformed(path, text)
        return cores

    def mask(self, path: str) -> tuple[int, ...]:
        """Return a file that holds a mask such as ff or 00000001,ffffffff, as cores."""
        text = self.text(path)
        if not _MASK.fullmatch(text) or len(text) > _MOST_CORES // 4:
            raise malformed(path, text)
        bits = int(text.replace(",", ""), 16)
        return tuple(core for core in range(bits.bit_length()) if bits >> core & 1)

    def names(self, path: str, pattern: str) -> list[str]:
        """Return the sorted names in a folder that match a glob; [] where there is none."""
        try:
            return sorted(entry.name for entry in (self.root / path).glob(pattern))
        except OSError:
            return []

    def numbered(self, path: str) -> list[str]:
        """Return the names in a folder that are numbers, in their order."""
        return sorted(filter(str.isdecimal, self.names(path, "[0-9]*")), key=int)

    @property
    def online(self) -> tuple[int, ...]:
        """The cores that are online."""
        return self.cores_in(_ONLINE)

    @functools.cached_property
    def cores(self) -> tuple[int, ...]:
        """The measuring cores; raises Unobservable where none are named and none can be seen."""
        if self.named:
            return self.named
        try:
            isolated = self.cores_in(_ISOLATED)
        except Unobservable:
            isolated = ()
        return isolated or self.online

    @functools.cached_property
    def guest(self) -> bool:
        """True if this is a virtual machine, as far as it can be seen."""
        flags = re.search(r"^flags\s*:.*$", self._or_empty("proc/cpuinfo"), re.MULTILINE)
        if flags and " hypervisor" in flags[0]:
            return True
        # Processors other than x86 have no such flag; their firmware names its maker.
        made = " ".join(self._or_empty(f"{_MACHINE}/{name}") for name in _MADE_BY)
        return bool(self._or_empty("sys/hypervisor/type") or _VIRTUAL.search(made))

    def _or_empty(self, path: str) -> str:
        try:
            return self.text(path)
        except Unobservable:
            return ""


def malformed(path: str, text: str) -> Unobservable:
    """Return what to raise for a file with unexpected text; quotes the text."""
    return Unobservable(f"/{path.lstrip('/')}", f"malformed: {shown(repr(text), 60)}")


def parse_list(text: str) -> tuple[int, ...] | None:
    """Return the cores of a list such as 0-3,8, ascending; None if the text is no such list."""
    text = text.strip()
    if not _LIST.fullmatch(text):
        return None
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if low > high or high >= _MOST_CORES:
            return None
        cores.update(range(low, high + 1))
    return tuple(sorted(cores))


def listed(cores: Iterable[int]) -> str:
    """Return cores as the kernel writes them: 0-3,8; "none" for none."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and core == ranges[-1][1] + 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges) or "none"


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
