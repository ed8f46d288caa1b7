"""The reaper stands between kit and engine: no process of an engine outlives the reaper.

Run as ``python -I -S reaper.py CONTROL STATUS RUN_ID WORKSPACE LEVEL COMMAND...``. It is the
subreaper of all that the engine starts, so whatever forks, detaches or changes its session
stays below it. CONTROL and STATUS are inherited. Any byte or the end of CONTROL
means: kill everything and leave. The kit's death, however it comes, ends CONTROL; then
WORKSPACE, the folder of the engine's folders, is removed too.

STATUS, a stream socket, carries lines: ``above PID``, the process that all of the engine's are
below, ``started PID``, ``failed ERRNO``, ``exited WAITSTATUS``, ``alone`` once nothing of the
engine is left, and at last ``gone`` or ``stuck PID...``.

LEVEL is ``none``, ``user:UID:GID``, or ``sandbox:PORT:FOLDER//FOLDER...``: the port to listen on
in there (the socket comes with the line ``listening``), and the folders to hide. In a sandbox the
reaper is its init, and its pids are those of the sandbox, that of ``above`` excepted.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import process_table

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_TIMEOUT_S = 10.0
UNTOLD = 3  # exit status of an init that the kit did not tell to end
NOT_CATCHABLE = (signal.SIGKILL, signal.SIGSTOP)


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process; raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def run_command(
    command: list[str], run_id: str, folder: str, level: str, failure: int, reaper: int
) -> None:
    """Become the engine: a session of its own, clean signals, the run's id. Never returns."""
    try:
        os.setsid()
        give_up_rights(level)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == reaper:
            for number in signal.valid_signals() - set(NOT_CATCHABLE):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.chdir(folder)
            os.execve(command[0], command, os.environ | {process_table.RUN_VARIABLE: run_id})
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def start(command: list[str], run_id: str, folder: str, level: str) -> tuple[int, int]:
    """Fork and exec in a folder; return (pid, 0), or (0, errno) when the program cannot be run."""
    reaper = os.getpid()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        run_command(command, run_id, folder, level, write_end, reaper)
    os.close(write_end)
    failure = os.read(read_end, 16)
    os.close(read_end)
    if failure:
        os.waitpid(pid, 0)
        return 0, int(failure)
    return pid, 0


def watch(control: int, kit: int | None, child_ended: int, reap, report) -> bool:
    """Reap what ends until the kit writes a byte, or is gone: then False."""
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
        if control in ready or kit in ready:
            return control in ready and bool(os.read(control, 1))


def give_up_rights(level: str) -> None:
    """Take from the engine's process what its level of isolation does not leave it."""
    kind, _, rest = level.partition(":")
    if kind == "user":
        user, group = map(int, rest.split(":"))
        os.setgroups([])
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    elif kind == "sandbox":
        import sandbox

        sandbox.drop_rights()


def enter_sandbox(kit: int, status: int, workspace: str, level: str) -> None:
    """Go on as the init of a new sandbox; the process of before waits for its end, and leaves."""
    import sandbox

    _, port, hidden = level.split(":", 2)
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
    sandbox.furnish(workspace, [folder for folder in hidden.split("//") if folder])
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
    import shutil  # which takes longer to import than all that comes before an engine

    shutil.rmtree(workspace, ignore_errors=True)


def detach() -> None:
    """Let go of the engine's pipes, or they would never come to their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def main(
    control: int, status: int, run_id: str, workspace: str, level: str, command: list[str]
) -> None:
    """Start the engine, watch over it, end it."""
    parent = os.getppid()
    kit = os.pidfd_open(parent)
    if os.getppid() != parent:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (control, status):
        os.set_inheritable(descriptor, False)

    def report(line: str) -> None:
        try:
            os.write(status, f"{line}\n".encode())
        except (BrokenPipeError, ConnectionResetError):
            return  # the kit is gone; the engine still has to be ended

    if sandboxed := level.startswith("sandbox:"):
        enter_sandbox(kit, status, workspace, level)
    else:
        report(f"above {os.getpid()}")
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pid, error = start(command, run_id, f"{workspace}/cwd", level)
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
                if ended == pid:
                    report(f"exited {wait_status}")
        except ChildProcessError:
            return True

    seen = None if sandboxed else kit  # which is out of sight from in there
    told = watch(control, seen, wake_read, reap, report)
    mine = lambda: process_table.own(os.getpid(), run_id)  # noqa: E731
    left = process_table.kill_all(mine, reap, KILL_TIMEOUT_S)
    if not told and not sandboxed:
        remove(workspace)
    report("stuck " + " ".join(str(proc.pid) for proc in left) if left else "gone")
    sys.exit(0 if told else UNTOLD)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5], sys.argv[6:])
