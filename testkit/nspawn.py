"""A container with a systemd of its own, started by systemd-nspawn, and ended whoever asks.

Root only. The launcher outlives the process that started it; its pid, in a file, is all that
another one needs to go on with the machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE_S = 300
CGROUPS = Path("/sys/fs/cgroup")
# Each machine in cgroups of its own, or all would share one. cpuacct counts its CPU time where
# the kernel has that apart.
LAUNCH = """
for kind in . unified systemd cpuacct; do
    group=/sys/fs/cgroup/$kind/sanderling-test-$$
    [ -f /sys/fs/cgroup/$kind/cgroup.procs ] || continue
    mkdir -p $group && echo $$ > $group/cgroup.procs || exit 1
done
trap 'kill $nspawn' TERM
status=133  # what nspawn ends with when the machine is to start again
while [ $status = 133 ]; do
    "$@" &
    nspawn=$!
    wait $nspawn
    status=$?
    # A signal ends a wait, too.
    while kill -0 $nspawn 2>/dev/null; do
        wait $nspawn
        status=$?
    done
done
exit $status
"""
NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit")


class Machine:
    """A container whose root file system is `folder`/root."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        self.name = name
        self.folder = folder
        self._options = options
        self._ready: socket.socket | None = None

    @property
    def root(self) -> Path:
        """Its file system, as this machine sees it."""
        return self.folder / "root"

    @property
    def console(self) -> Path:
        """What it writes to its console."""
        return self.folder / "console.log"

    @property
    def launcher(self) -> int:
        """Process id of its launcher; 0 where it does not run."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        # Of a process that has ended and was not waited for, it is empty.
        return pid if os.fsencode(self.root) in command else 0

    @property
    def leader(self) -> int:
        """Process id of its init. RuntimeError where it does not run."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            return _child(_child(self.launcher))
        raise RuntimeError(f"{self.name} does not run")

    def start(self) -> None:
        """Switch it on; `await_ready` waits."""
        self._await_ready_on(f"sanderling-{secrets.token_hex(8)}")
        nspawn = (
            *NSPAWN, "--boot", "--directory", str(self.root), "--machine", self.name,
            "--console=read-only", "--notify-ready=yes",
            # Its own filter would refuse to say whether the clock is synchronised.
            "--system-call-filter=@clock", *self._options,
        )  # fmt: skip
        with self.console.open("ab") as console:
            started = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "sh", *nspawn],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": f"@{self._address}"},
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(started.pid))
        # Who started it may end before; `_reap` does what this object would.
        started.returncode = 0

    def await_ready(self) -> None:
        """Wait until it has booted. RuntimeError with the console's last lines if it does not."""
        assert self._ready is not None
        pid = int((self.folder / "pid").read_text())
        give_up_s = time.monotonic() + PATIENCE_S
        ended = os.pidfd_open(pid)
        try:
            while time.monotonic() < give_up_s:
                left_s = max(0.0, give_up_s - time.monotonic())
                found, _, _ = select.select([self._ready, ended], [], [], left_s)
                if ended in found:
                    break
                if found and b"READY=1" in self._ready.recv(4096).split(b"\n"):
                    return
        finally:
            os.close(ended)
            self._ready.close()
            self._ready = None
        said = self.console.read_text(errors="replace").splitlines()[-10:]
        raise RuntimeError("\n".join([f"{self.name} did not come up", *said]))

    def command(self, *command: str | Path) -> list[str]:
        """What runs `command` on the machine."""
        enter = ["nsenter", "-t", str(self.leader), "-m", "-p", "-n", "-u", "-i"]
        return [*enter, *map(str, command)]

    def run(self, *command: str | Path, check: bool = True, stdin: bytes = b"") -> str:
        """The output of a command on the machine."""
        return run(*self.command(*command), check=check, stdin=stdin)

    def cpu_s(self) -> float:
        """CPU time of all its processes since it was started, in seconds."""
        group = CGROUPS / f"cpuacct/sanderling-test-{self.launcher}/cpuacct.usage"
        if group.exists():
            return int(group.read_text()) / 1e9
        unified = CGROUPS / ("unified" if (CGROUPS / "unified").is_dir() else "")
        stat = (unified / f"sanderling-test-{self.launcher}/cpu.stat").read_text()
        return int(stat.split()[1]) / 1e6

    def kill(self) -> None:
        """Cut its power."""
        pid = self.launcher
        os.kill(self.leader, signal.SIGKILL)
        self._reap(pid)

    def end(self) -> None:
        """End it, however; nothing happens if it does not run. Its files are of no more use."""
        try:
            self.kill()
        except (RuntimeError, ProcessLookupError):  # it is being started, or ends
            self.stop()

    def stop(self) -> None:
        """Shut it down, in order; nothing happens if it does not run."""
        if pid := self.launcher:
            # SIGKILL would leave the payload running.
            os.kill(pid, signal.SIGTERM)
            self._reap(pid)

    def _await_ready_on(self, address: str) -> None:
        self._address = address
        self._ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._ready.bind(f"\0{address}")

    def _reap(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            ended = os.pidfd_open(pid)
            try:
                found, _, _ = select.select([ended], [], [], PATIENCE_S)
            finally:
                os.close(ended)
            if not found:
                raise TimeoutError(f"{self.name} did not end within {PATIENCE_S} s")
        with contextlib.suppress(ChildProcessError):  # it was another process's
            os.waitpid(pid, 0)
        _remove_cgroups(pid)


@functools.cache
def obstacle() -> str:
    """Why there can be no machine here, found by having one that ends at once; empty if there
    can."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        try:
            overlay(Path("/"), folder)
        except RuntimeError as error:
            return f"no overlay can be mounted here: {last_line(error)}"
        try:
            words = ("--directory", folder / "root", "--private-network", "--console=pipe")
            started = subprocess.Popen(
                ["/bin/sh", "-c", LAUNCH, "sh", *NSPAWN, *words, "/bin/true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            said, _ = started.communicate()
            _remove_cgroups(started.pid)
            if started.returncode:
                return f"systemd-nspawn starts no machine here: {last_line(said)}"
        finally:
            unmount(folder)
    return ""


def last_line(said: object) -> str:
    """What a command that failed said in the end."""
    lines = [line for line in str(said).splitlines() if line.strip() and "dmesg(1)" not in line]
    return lines[-1].strip() if lines else "it did not say why"


def _remove_cgroups(pid: int) -> None:
    name = f"sanderling-test-{pid}"
    for group in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")):
        for each, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # a payload that is still ending
                Path(each).rmdir()


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def run(
    *command: str | Path, check: bool = True, stdin: bytes = b"", patience_s: float = PATIENCE_S
) -> str:
    """The output of a command. RuntimeError with all that it said if it fails."""
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=patience_s, input=stdin
    )
    said = done.stdout.decode()
    if check and done.returncode:
        raise RuntimeError(f"{command}: {said}{done.stderr.decode()}")
    return said


def overlay(lower: Path, folder: Path) -> None:
    """Mount `lower` with a layer of its own over it at `folder`/root.

    Nothing that is written there waits for a disk: it has to outlive the machine, not this one.
    """
    for each in ("root", "upper", "work"):
        (folder / each).mkdir(exist_ok=True)
    layers = f"volatile,lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
    run("mount", "-t", "overlay", "overlay", "-o", layers, folder / "root")


def unmount(folder: Path) -> None:
    """Take away what `overlay` mounted; nothing happens if it is gone."""
    if os.path.ismount(folder / "root"):
        run("umount", folder / "root")
