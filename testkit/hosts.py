"""Debian hosts that boot on this machine, with what an operator does to a card before its first
start: name, host key, who may log in. They have no Sanderling. Root only."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from testkit import nspawn, root_file_system

if TYPE_CHECKING:
    from fleet.keys.store import Store

SSH_PORT: Final = 22
LOOK_EVERY_S: Final = 0.05
INOTIFY: Final = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH: Final = 1_024


class Host(nspawn.Machine):
    """A host, called `full_name` (IAD/HOST) in its fleet, whose sshd is to answer at `address`;
    `settings` are more files of its card, by their paths."""

    def __init__(
        self,
        full_name: str,
        folder: Path,
        address: str,
        *options: str,
        machine: str = "",
        ssh_port: int = SSH_PORT,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.full_name = full_name
        self.short = full_name.rpartition("/")[2]
        self.address = address
        self._ssh_port = ssh_port
        self._settings = settings or {}
        super().__init__(
            machine or full_name.replace("/", "-"), folder, *options, f"--hostname={self.short}"
        )

    def flash(self, store: Store) -> None:
        """Give it a new card, with bare Debian and what the fleet's keys are for it."""
        nspawn.unmount(self.folder)
        for each in ("upper", "work"):
            shutil.rmtree(self.folder / each, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mount()
        key = store.host_key(self.full_name)
        files = {
            "etc/hostname": f"{self.short}\n",
            "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {self.short}\n",
            "etc/machine-id": f"{secrets.token_hex(16)}\n",
            "etc/ssh/ssh_host_ed25519_key.pub": f"{key.public}\n",
            "home/fleet/.ssh/authorized_keys": f"{store.operator_public.strip()}\n",
            **self._settings,
        }
        for path, text in files.items():
            (self.root / path).write_text(text)
        self.set_host_key(key.private)

    def set_host_key(self, private: bytes) -> None:
        """Have this SSH host key, from sshd's next connection on."""
        path = self.root / "etc/ssh/ssh_host_ed25519_key"
        path.touch(0o600)
        path.write_bytes(private)

    def remove(self) -> None:
        """End it, and take away what was on its card."""
        self.end()
        nspawn.unmount(self.folder)
        for each in ("root", "upper", "work"):
            shutil.rmtree(self.folder / each, ignore_errors=True)

    def mount(self) -> None:
        """Put the card in."""
        if not self.root.is_mount():
            nspawn.overlay(root_file_system.ensure(), self.folder)

    def await_ssh(self) -> None:
        """Wait until its sshd answers."""
        give_up_s = time.monotonic() + nspawn.PATIENCE_S
        while time.monotonic() < give_up_s:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((self.address, self._ssh_port), timeout=5) as connection,
            ):
                if connection.recv(4).startswith(b"SSH-"):
                    return
            time.sleep(LOOK_EVERY_S)
        raise TimeoutError(f"no sshd on {self.short} at {self.address}")


def boot(hosts: Iterable[Host]) -> None:
    """Switch these on and wait until one can log in to each."""
    # Each systemd takes ten of them, and one that gets none does not boot.
    if int(INOTIFY.read_text()) < ENOUGH:
        INOTIFY.write_text(str(ENOUGH))
    some = list(hosts)
    for host in some:
        host.mount()
        host.start()
    for host in some:
        host.await_ready()
        host.await_ssh()


def obstacle() -> str:
    """Why no host can be booted here; empty if one can."""
    packages = subprocess.run(
        [root_file_system.ROOT / "tools/missing_packages.sh", "hosts"],
        capture_output=True,
        check=True,
        text=True,
    )
    if packages.stdout:
        return f"missing: apt install {packages.stdout.strip()}"
    if reason := nspawn.obstacle():
        return reason
    try:
        root_file_system.ensure()
    except root_file_system.NoMirrorError as error:
        return str(error)
    return ""
