"""A sandbox for an engine, of Linux namespaces: all but its state is gone when it dies.

Standard library only: the reaper loads this file by itself, and it is the reaper that lives
in the sandbox, as its init. What the engine writes goes to layers in memory, over the files of
the machine; only the folders of its workspace are real. It sees no process but its own, no
network but a loopback of its own, and none of the folders that are hidden.
"""

import contextlib
import ctypes
import errno
import os
import re
import stat
import sys

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
_NEWPID, NEWNET, _NEWTIME = 0x20000000, 0x40000000, 0x80
_SPACES = _NEWUTS | _NEWIPC | _NEWPID
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_SETATTR = 442  # the same number on all architectures
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_PR_CAP_AMBIENT, _RAISE = 47, 2
_CAPABILITY_VERSION, _NET_ADMIN = 0x20080522, 12
#: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE: what a program
#: that runs as root is used to, and what leads out of no namespace.
_KEPT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 10}
#: A filter of system calls, seccomp(2): its instructions, what it reads of a call and returns.
_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OF_NUMBER, _OF_ARCHITECTURE, _OF_FLAGS = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
#: From here on numbers are those of x32, another table of the same architecture.
_OTHER_NUMBERS = 0x40000000
_CLONE3 = 435  # the same number on all architectures
#: Machine to the architectures that its kernel runs, each with the numbers of add_key, request_key
#: and keyctl, and of unshare and clone.
_CALLS = {
    "x86_64": [
        (0xC000003E, (248, 249, 250), (272, 56)),
        (0x40000003, (286, 287, 288), (310, 120)),  # programs of 32 bits
    ],
    "aarch64": [
        (0xC00000B7, (217, 218, 219), (97, 220)),
        (0x40000028, (309, 310, 311), (337, 120)),
    ],
}
#: Made anew; nothing of the machine's is seen there.
_OWN = (b"/proc", b"/sys", b"/dev")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

#: The folders of a workspace: working directory, TMPDIR, and what holds the state_dir.
STATES = "states"
FOLDERS = ("cwd", "tmp", STATES)
#: How the name of the folder begins that workspaces of one user are in.
SHARED = b"tickproof-engines-"

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function, *arguments):
    if function(*arguments) < 0:
        number = ctypes.get_errno()
        words = [function.__name__.encode(), *(a for a in arguments if isinstance(a, bytes))]
        shown = b" ".join(words).decode("utf-8", "replace")
        raise OSError(number, f"{shown}: {os.strerror(number)}")


def unshare(spaces=_SPACES | NEWNET):
    """Leave namespaces of the machine; of all of them but its files where none are named.

    The next child is the init of a new pid namespace. Returns whether there is a new user
    namespace, too. Raises OSError where this machine does not allow it.
    """
    try:
        unshare_again(spaces)
        return False
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        _call(_libc.unshare, spaces | _NEWUSER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
    return True


def unshare_again(spaces):
    """Leave namespaces, with the rights that this process has; raises OSError."""
    _call(_libc.unshare, spaces)


def unshare_on_host():
    """Leave the namespaces of the machine, but for its files and its network, or that of a host."""
    unshare(_SPACES)


def enter(descriptor, kind=0):
    """Go over to a namespace, of a kind where one is named; raises OSError."""
    _call(_libc.setns, descriptor, kind)


def set_uptime_ahead(seconds):
    """Let this machine seem to be up for longer; raises OSError.

    It is so for this process and all that it starts: CLOCK_MONOTONIC and CLOCK_BOOTTIME.
    """
    unshare_again(_NEWTIME)
    with open("/proc/self/timens_offsets", "w") as file:  # noqa: PTH123
        file.write("".join(f"{clock} {seconds} 0\n" for clock in ("monotonic", "boottime")))
    with open("/proc/self/ns/time_for_children") as space:  # noqa: PTH123
        enter(space.fileno(), _NEWTIME)


def furnish(workspace, hidden, writable=(), disk=False):
    """Leave the files of the machine for those of the sandbox; called by its init.

    Only what lies in the folders of ``workspace``, and in those that are ``writable``, is written
    for good. Files and folders that are ``hidden`` are not there, nor is their name; if the kernel
    refuses, they are empty. disk: in place of the folder of states comes a file system; return the
    descriptor through which it is served (fuse(4)), -1 without. Raises OSError.
    """
    _call(_libc.unshare, _NEWNS)
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC) if disk else -1
    _mount(b"", b"/", b"", _REC | _PRIVATE)
    mounts = _mount_points()
    base = os.fsencode(f"{workspace}/root")
    os.makedirs(base, exist_ok=True)  # noqa: PTH103
    _mount(b"tmpfs", base, b"tmpfs", _NOSUID | _NODEV, b"mode=755")
    new = base + b"/new"
    os.mkdir(new)  # noqa: PTH102
    hidden = [os.fsencode(os.path.realpath(path)) for path in hidden]
    hidden = [path for path in hidden if not _within(os.fsencode(workspace), (path,))]
    _Layers(base, new, mounts, hidden).cover(b"/")
    _furnish_proc(new)
    _furnish_dev(new)
    own = [os.fsencode(f"{workspace}/{name}") for name in FOLDERS]
    around = os.path.dirname(os.fsencode(workspace))  # noqa: PTH120
    if os.path.basename(around).startswith(SHARED):  # noqa: PTH119
        # Engines of other runs that go on meanwhile, or begin, have theirs beside it.
        _mount(b"tmpfs", new + around, b"tmpfs", _NOSUID | _NODEV, b"mode=755")
        for folder in own:
            os.makedirs(new + folder)  # noqa: PTH103
    for folder in (*own, *map(os.fsencode, writable)):
        _mount(folder, new + folder, b"", _BIND | _REC)
    if disk:
        options = b"fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,allow_other"
        states = new + os.fsencode(f"{workspace}/{STATES}")
        given = options % (fuse, os.geteuid(), os.getegid())
        try:
            _mount(b"disk", states, b"fuse", _NOSUID | _NODEV, given)
        except OSError as error:
            raise OSError(error.errno, f"cannot mount FUSE: {os.strerror(error.errno)}") from None
    for target in (new + path for path in hidden):
        if os.path.isdir(target):  # noqa: PTH112
            _mount(b"tmpfs", target, b"tmpfs", _RDONLY | _NOSUID | _NODEV, b"mode=755,size=4k")
        elif os.path.exists(target):  # noqa: PTH110
            _bind_readonly(b"/dev/null", target)
    os.chdir(new)
    _call(_libc.pivot_root, b".", b".")  # the old root now lies on top of the new one
    _call(_libc.umount2, b".", _DETACH)
    os.chdir("/")
    return fuse


class _Layers:
    """Shows the files of the machine, so that what is written to them is lost."""

    def __init__(self, base, new, mounts, hidden):
        self._base, self._new, self._hidden = base, new, hidden
        self._mounts = [path for path in mounts if not _within(path, hidden)]
        self._count = 0

    def cover(self, path):
        """Show a file or folder, and all below it."""
        target = self._new + path
        below = [m for m in self._mounts if m != path and _within(m, (path,))]
        if self._overlay(path, target, below):
            for mount in below:
                inside = any(m != mount and _within(mount, (m,)) for m in below)
                if not inside and not _within(mount, _OWN):
                    self.cover(mount)
        elif below or any(_within(one, (path,)) for one in self._hidden):
            self._expand(path, target)
        else:
            _bind_readonly(path, target)

    def _overlay(self, path, target, below):
        """Put a layer over a folder with mounts ``below``; False where the kernel refuses."""
        if not os.path.isdir(path):  # noqa: PTH112
            return False
        self._count += 1
        upper, work = (self._base + b"/%s%d" % (kind, self._count) for kind in (b"u", b"w"))
        os.mkdir(work)  # noqa: PTH102
        _make_like(path, upper)
        for one in self._hidden:
            if _within(one, (path,)) and not _within(one, below):
                with contextlib.suppress(OSError):
                    _leave_out(one, path, upper)
        lower = re.sub(rb"([\\:,])", rb"\\\1", path)
        options = b"lowerdir=%s,upperdir=%s,workdir=%s" % (lower, upper, work)
        for extra in (b"", b",userxattr"):
            with contextlib.suppress(OSError):
                _mount(b"overlay", target, b"overlay", 0, options + extra)
                return True
        return False

    def _expand(self, path, target):
        """Show each entry of a folder that can be covered only in parts."""
        if path == b"/":
            _mount(b"tmpfs", target, b"tmpfs", _NOSUID | _NODEV, b"mode=755")
        else:
            _mount(
                b"tmpfs",
                target,
                b"tmpfs",
                _NOSUID | _NODEV,
                b"mode=%o" % (os.stat(path).st_mode & 0o7777),  # noqa: PTH116
            )
        for entry in os.scandir(path):
            inside = self._new + entry.path
            if entry.path in self._hidden:
                continue
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), inside)  # noqa: PTH115, PTH211
                continue
            if entry.is_dir():
                os.mkdir(inside)  # noqa: PTH102
            else:
                os.close(os.open(inside, os.O_CREAT | os.O_WRONLY))
            if not _within(entry.path, _OWN):
                with contextlib.suppress(OSError):  # what cannot be shown is missing
                    self.cover(entry.path)


def _make_like(path, folder):
    """Make a folder with the rights of another one."""
    facts = os.stat(path)  # noqa: PTH116
    os.mkdir(folder)  # noqa: PTH102
    os.chmod(folder, facts.st_mode & 0o7777)  # noqa: PTH101
    with contextlib.suppress(OSError):
        os.chown(folder, facts.st_uid, facts.st_gid)


def _leave_out(hidden, path, upper):
    """Mark in the layer over a folder that something below it is not there; raises OSError."""
    *parents, name = os.path.relpath(hidden, path).split(b"/")
    for parent in parents:
        path, upper = path + b"/" + parent, upper + b"/" + parent
        if not os.path.exists(upper):  # noqa: PTH110
            _make_like(path, upper)
    os.mknod(upper + b"/" + name, stat.S_IFCHR, os.makedev(0, 0))


def _furnish_proc(new):
    _mount(b"proc", new + b"/proc", b"proc", _NOSUID | _NODEV | _NOEXEC)
    for path in (b"/proc/sys", b"/proc/sysrq-trigger"):
        if os.path.exists(path):  # noqa: PTH110
            _bind_readonly(new + path, new + path)
    _bind_readonly(b"/sys", new + b"/sys")


def _furnish_dev(new):
    dev = new + b"/dev"
    _mount(b"tmpfs", dev, b"tmpfs", _NOSUID, b"mode=755")
    for name in map(str.encode, _DEVICES):
        if os.path.exists(b"/dev/" + name):  # noqa: PTH110
            os.close(os.open(dev + b"/" + name, os.O_CREAT | os.O_WRONLY))
            # Whoever may write to the device may still; its times and modes are the machine's.
            _bind_readonly(b"/dev/" + name, dev + b"/" + name)
    for name, to in (
        (b"fd", b"/proc/self/fd"),
        (b"stdin", b"/proc/self/fd/0"),
        (b"stdout", b"/proc/self/fd/1"),
        (b"stderr", b"/proc/self/fd/2"),
        (b"ptmx", b"pts/ptmx"),
    ):
        os.symlink(to, dev + b"/" + name)  # noqa: PTH211
    for name, kind, options in (
        (b"/shm", b"tmpfs", b"mode=1777"),
        (b"/pts", b"devpts", b"newinstance,ptmxmode=0666,mode=620"),
    ):
        os.mkdir(dev + name)  # noqa: PTH102
        _mount(kind, dev + name, kind, _NOSUID, options)


def name_host():
    """Name this host anew: the machine's name may be known to a server that is out of reach now."""
    import _socket

    with contextlib.suppress(OSError):
        _socket.sethostname("localhost")


def listen(port):
    """Bring the loopback up, and return a socket that listens on all of it; raises OSError."""
    import _socket
    import fcntl
    import struct

    name_host()
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    asked = fcntl.ioctl(sock.fileno(), _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
    flags = struct.unpack("16sH14x", asked)[1] | _IFF_UP
    fcntl.ioctl(sock.fileno(), _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    sock.bind(("", port))  # this network has nothing but the loopback
    sock.listen(128)
    return sock


def send(descriptor, line, other):
    """Send a line through a Unix socket, and a second descriptor with it; raises OSError."""
    import _socket

    sock = _socket.socket(fileno=descriptor)
    rights = other.to_bytes(ctypes.sizeof(ctypes.c_int), sys.byteorder)
    sock.sendmsg([line], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    sock.detach()


def drop_rights():
    """Take from this process and all that it starts what could undo the sandbox."""
    number = 0
    while number in _KEPT_CAPABILITIES or not _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
        number += 1  # until one that this kernel does not know
    _call(_libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _close_calls()


def _close_calls():
    """Close system calls to this process and all that it starts; raises OSError.

    Keys of the kernel outlive a sandbox, and no namespace holds them: their calls are not there.
    A new user namespace is refused. On an architecture that is not known here, all stays open.
    """
    if (calls := _CALLS.get(os.uname().machine)) is None:
        return
    lines = [(_LOAD, 0, 0, _OF_ARCHITECTURE)]
    for architecture, keys, (unshare_, clone) in calls:
        missing = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
        block = [(_LOAD, 0, 0, _OF_NUMBER), (_AT_LEAST, 0, 1, _OTHER_NUMBERS), missing]
        for number in (*keys, _CLONE3):  # libraries go on with clone, whose flags can be read
            block += [(_EQUAL, 0, 1, number), missing]
        block += [(_EQUAL, 1, 0, unshare_), (_EQUAL, 0, 3, clone)]
        block += [(_LOAD, 0, 0, _OF_FLAGS), (_HAS_BITS, 0, 1, _NEWUSER)]
        block += [(_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
        lines += [(_EQUAL, 0, len(block), architecture), *block]
    lines.append((_RETURN, 0, 0, _ERRNO | errno.EPERM))
    program = (_Instruction * len(lines))(*lines)
    filtering = _Filter(len(lines), ctypes.cast(program, ctypes.c_void_p))
    _call(_libc.prctl, _PR_SET_SECCOMP, _FILTER, ctypes.byref(filtering), 0, 0)


class _Instruction(ctypes.Structure):
    """One line of a filter: code, lines to skip if it holds and if not, and a number."""

    _fields_ = [
        ("code", ctypes.c_uint16),
        ("then", ctypes.c_uint8),
        ("otherwise", ctypes.c_uint8),
        ("number", ctypes.c_uint32),
    ]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("lines", ctypes.c_void_p)]


def pass_network_rights_on():
    """Let what this process starts change networks, whatever user it runs as; raises OSError."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; and the upper halves
    _call(_libc.capget, header, sets)
    sets[2] |= 1 << _NET_ADMIN
    _call(_libc.capset, header, sets)
    _call(_libc.prctl, _PR_CAP_AMBIENT, _RAISE, _NET_ADMIN, 0, 0)


def _mount(source, target, kind, flags, options=b""):
    _call(_libc.mount, source, target, kind, ctypes.c_ulong(flags), options)


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]


def _bind_readonly(path, target):
    """Show a file or folder, with all mounts below it, so that nothing can be written."""
    _mount(path, target, b"", _BIND | _REC)
    wanted = _Attributes(set=_RDONLY)
    _call(
        _libc.syscall,
        _MOUNT_SETATTR,
        _AT_FDCWD,
        target,
        _AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )


def _mount_points():
    """Return where file systems are mounted, each place once, parents first."""
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
        paths = [line.split()[4] for line in file]
    unescaped = (re.sub(rb"\\(\d{3})", lambda m: bytes([int(m[1], 8)]), path) for path in paths)
    return sorted(set(unescaped))


def _within(path, folders):
    return any(path == one or path.startswith(one.rstrip(b"/") + b"/") for one in folders)


def _try_out(workspace, disk=False):
    """Make a sandbox and leave it; raises OSError. disk: with one that nobody serves."""
    unshare()
    init = os.fork()
    if init:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(init, 0)[1]))
    furnish(workspace, [], disk=disk)
    listen(0)
    drop_rights()


if __name__ == "__main__":
    _try_out(sys.argv[1], sys.argv[2:] == ["disk"])
