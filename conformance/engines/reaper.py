"""The reaper stands between kit and engine: no process of an engine outlives the reaper.

Run as ``python -I -S reaper.py CONTROL STATUS RUN_ID WORKSPACE LEVEL HOSTS COMMAND...``. It is the
subreaper of all that the engine starts, so whatever forks, detaches or changes its session
stays below it. CONTROL and STATUS are inherited. The byte ``e`` or the end of CONTROL
means: kill everything and leave. The kit's death, however it comes, ends CONTROL; then
WORKSPACE, the folder of the engine's folders, is removed too.

STATUS, a stream socket, carries lines: ``above PID``, the process that all of the engine's are
below, ``started PID``, ``failed ERRNO``, ``exited WAITSTATUS``, ``alone`` once nothing of the
engine is left, and at last ``gone`` or ``stuck PID...``.

LEVEL is ``none``, ``user:UID:GID``, or ``sandbox:PORT,...``: the ports to listen on in there (each
socket comes with a line ``listening``). With ``:disk`` behind, the folder of states is a mount of
FUSE there, whose descriptor comes with a line ``disk``. CONTROL then begins with the paths of what
to hide, a zero byte after each and after the last: a command line can be read in there. The kit's
own package is hidden, too, but for what starts engines. In a sandbox the reaper is its init, and
its pids are those of the sandbox, that of ``above`` excepted. With ``workshop`` it is one with the
machine's network, and CONTROL begins with folders that can be written there.

HOSTS is empty, or holds descriptors of namespaces: of a user namespace (-1: none), and of the
network of each host. The engine runs on the first; on each other one host_starter.py runs as long
as the engine does. A byte N of CONTROL, 1 and up, has it started again on host N + 1.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import process_table

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_TIMEOUT_S = 10.0
HOLD_PASSES = 10_000
DAY_S = 86_400
UNTOLD = 3  # exit status of an init that the kit did not tell to end
NOT_CATCHABLE = (signal.SIGKILL, signal.SIGSTOP)
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
HOST_STARTER = f"{HERE}/host_starter.py"
SANDBOXES = ("sandbox", "workshop")
#: What programs in a sandbox need of the kit.
NEEDED = ("__pycache__", "host_starter.py", "process_table.py", "supervisor.py")


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process; raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def run_command(
    command: list[str],
    run_id: str,
    folder: str,
    level: str,
    failure: int,
    reaper: int,
    host: int,
    number: int,
) -> None:
    """Become the engine: a session of its own, clean signals, the run's id. Never returns."""
    try:
        os.setsid()
        if host >= 0:
            become_starter(host, number)
        give_up_rights(level)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == reaper:
            for one in signal.valid_signals() - set(NOT_CATCHABLE):
                signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.chdir(folder)
            os.execve(command[0], command, os.environ | {process_table.RUN_VARIABLE: run_id})
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def become_starter(host: int, number: int) -> None:
    """Go to a host, and take its requests to start something as stdin; raises OSError.

    Hosts have been up for different times: this one for ``number`` days longer than the first.
    """
    import contextlib

    import host_starter
    import sandbox

    sandbox.enter(host, sandbox.NEWNET)
    with contextlib.suppress(OSError):  # a kernel older than 5.6 has one such clock for all
        sandbox.set_uptime_ahead(number * DAY_S)
    listener = host_starter.listen()
    os.dup2(listener.fileno(), 0)
    os.dup2(2, 1)  # stdout is for control lines


def start(
    command: list[str], run_id: str, folder: str, level: str, host: int = -1, number: int = 0
) -> tuple[int, int]:
    """Fork and exec in a folder; return (pid, 0), or (0, errno) when the program cannot be run."""
    reaper = os.getpid()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        run_command(command, run_id, folder, level, write_end, reaper, host, number)
    os.close(write_end)
    failure = os.read(read_end, 16)
    os.close(read_end)
    if failure:
        os.waitpid(pid, 0)
        return 0, int(failure)
    return pid, 0


class Starters:
    """Starters of an engine's processes on the hosts other than the first, one on each."""

    def __init__(self, hosts: list[int], run_id: str, folder: str, level: str) -> None:
        self._hosts, self._started_as = hosts, (run_id, folder, level)
        self.pids: set[int] = set()
        self._over = False

    def start_all(self) -> int:
        """Start one on each host; return 0, or errno of the first that cannot be started."""
        errors = (self.start(number) for number in range(1, len(self._hosts) + 1))
        return next(filter(None, errors), 0)

    def start(self, number: int) -> int:
        """Start the one of host ``number`` + 1; return 0, or errno."""
        if self._over:
            return 0
        serve = [sys.executable, "-I", "-S", HOST_STARTER, "serve"]
        pid, error = start(serve, *self._started_as, self._hosts[number - 1], number)
        self.pids.add(pid)
        return error

    def end(self) -> None:
        """Kill them: the engine has ended."""
        self._over = True
        for pid in self.pids - {0}:
            os.kill(pid, signal.SIGKILL)


def watch(control: int, kit: int | None, child_ended: int, reap, report, start_again) -> bool:
    """Reap what ends until the kit says so, or is gone: then False."""
    poll = select.poll()
    for descriptor in (control, kit, child_ended):
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if child_ended in ready:
            os.read(child_ended, 4096)
            if reap():
                report("alone")
        if control in ready:
            told = os.read(control, 1)
            if told in (b"", b"e"):
                return bool(told)
            start_again(told[0])
        elif kit in ready:
            return False


def wake_up_for_children() -> int:
    """Return a descriptor from which a byte comes when a child has ended."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake_read


def give_up_rights(level: str) -> None:
    """Take from the engine's process what its level of isolation does not leave it."""
    kind, _, rest = level.partition(":")
    if kind == "user":
        user, group = map(int, rest.split(":"))
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    elif kind in SANDBOXES:
        import sandbox

        sandbox.drop_rights()


def enter_host(spaces: list[int]) -> None:
    """Go to the network of a host; what is started later goes to others by itself."""
    import sandbox

    user, first, *_ = spaces
    for descriptor in spaces:
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    if user >= 0:
        sandbox.enter(user)
    sandbox.enter(first, sandbox.NEWNET)


def read_paths(control: int) -> list[str]:
    """Return the paths with which CONTROL begins; none if the kit is gone."""
    said = bytearray()
    while not (b"\0" + said).endswith(b"\0\0"):
        if not (one := os.read(control, 1)):
            return []
        said += one
    return [os.fsdecode(path) for path in bytes(said).split(b"\0") if path]


def of_the_kit() -> list[str]:
    """Return the files and folders of the kit's package that programs do not need."""
    kit = os.path.dirname(HERE)  # noqa: PTH120
    beside = [entry.path for entry in os.scandir(HERE) if entry.name not in NEEDED]
    above = [entry.path for entry in os.scandir(kit) if entry.path != HERE]
    return [*beside, *above, f"{os.path.dirname(kit)}/generators"]  # noqa: PTH120


def enter_sandbox(
    kit: int, status: int, workspace: str, level: str, paths: list[str], on_host: bool
) -> None:
    """Go on as the init of a new sandbox; the process of before waits for its end, and leaves."""
    import sandbox

    builds = level == "workshop"
    if on_host or builds:
        sandbox.unshare_on_host()
    else:
        sandbox.unshare()
    go_read, go_write = os.pipe()
    if init := os.fork():
        os.write(status, f"above {init}\n".encode())
        os.write(go_write, b"g")
        os.close(status)
        detach()
        see_off(init, kit, workspace)
        os._exit(0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(go_write)
    if not os.read(go_read, 1):  # its parent died before prctl could ask for the signal
        os._exit(1)
    os.close(go_read)
    if builds:
        sandbox.furnish(workspace, [], writable=paths)
        return
    _, ports, *disk = level.split(":")
    fuse = sandbox.furnish(workspace, [*paths, *of_the_kit()], disk=bool(disk))
    if disk:
        sandbox.send(status, b"disk\n", fuse)
        os.close(fuse)
    if on_host:
        sandbox.name_host()
        return
    for port in ports.split(","):
        listener = sandbox.listen(int(port))
        sandbox.send(status, b"listening\n", listener.fileno())
        listener.close()


def see_off(init: int, kit: int, workspace: str) -> None:
    """Wait for the end of a sandbox, and bring it about where the kit is gone."""
    poll = select.poll()
    poll.register(kit, select.POLLIN)
    poll.register(os.pidfd_open(init), select.POLLIN)
    if kit in {descriptor for descriptor, _ in poll.poll()}:
        os.kill(init, signal.SIGKILL)
    _, wait_status = os.waitpid(init, 0)
    if wait_status in (signal.SIGKILL, UNTOLD << 8):  # the kit is gone
        remove(workspace)


def remove(workspace: str) -> None:
    """Remove the engine's folders, as the kit no longer can."""
    from pathlib import Path  # which takes longer to import than all before an engine

    import workspace as folders

    folders.remove_root(Path(workspace))


def detach() -> None:
    """Let go of the engine's pipes, or they would never come to their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def hold_children() -> None:
    """Stop the children, until no other comes: reading a whole table takes longer than a fork."""
    stopped: set[str] = set()
    for _ in range(HOLD_PASSES):
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
                new = set(file.read().split()) - stopped
        except OSError:
            return  # a kernel without this file
        for pid in new:
            os.kill(int(pid), signal.SIGSTOP)  # not yet waited for, so no other has its pid
        if not new:
            return
        stopped |= new


def kill_engine(run_id: str, reap: Callable[[], bool]) -> list[process_table.Proc]:
    """Kill all that is the engine's; return what still lives after ten seconds."""

    def found() -> list[process_table.Proc]:
        hold_children()
        return process_table.own(os.getpid(), run_id)

    return process_table.kill_all(found, reap, KILL_TIMEOUT_S)


def main(
    control: int,
    status: int,
    run_id: str,
    workspace: str,
    level: str,
    spaces: list[int],
    command: list[str],
) -> None:
    """Start the engine, watch over it, end it."""
    parent = os.getppid()
    kit = os.pidfd_open(parent)
    if os.getppid() != parent:
        return
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)

    def report(line: str) -> None:
        try:
            os.write(status, f"{line}\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            return  # the kit is gone; the engine still has to be ended

    if spaces:
        enter_host(spaces)
    if sandboxed := level.startswith(SANDBOXES):
        enter_sandbox(kit, status, workspace, level, read_paths(control), bool(spaces))
    else:
        report(f"above {os.getpid()}")
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    child_ended = wake_up_for_children()
    folder = f"{workspace}/cwd"
    starters = Starters(spaces[2:], run_id, folder, level)
    error = starters.start_all()
    pid, error = (0, error) if error else start(command, run_id, folder, level)
    if error:
        report(f"failed {error}")
        return
    report(f"started {pid}")
    detach()

    def reap() -> bool:
        """Collect what has ended; True when no child is left."""
        try:
            while True:
                ended, wait_status = os.waitpid(-1, os.WNOHANG)
                if ended == 0:
                    return False
                starters.pids.discard(ended)
                if ended == pid:
                    report(f"exited {wait_status}")
                    starters.end()
        except ChildProcessError:
            return True

    seen = None if sandboxed else kit  # which is out of sight from in there
    told = watch(control, seen, child_ended, reap, report, starters.start)
    left = kill_engine(run_id, reap)
    if not told and not sandboxed:
        remove(workspace)
    report("stuck " + " ".join(str(proc.pid) for proc in left) if left else "gone")
    sys.exit(0 if told else UNTOLD)


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        sys.argv[3],
        sys.argv[4],
        sys.argv[5],
        [int(word) for word in sys.argv[6].split()],
        sys.argv[7:],
    )
