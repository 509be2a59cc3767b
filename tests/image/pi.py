"""Emulated Pis for tests: a fleet's folder, its image (cached), its master, and booted cards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from fleet.image import emulate, rootfs
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import hosts
from fleet.keys.store import Store
from fleet.rollout import local
from fleet.testbed.ports import free_ports

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
VARIABLE = "SANDERLING_IMAGE"
# Packages, root file systems, the release: minutes to make.
CACHE = Path(os.environ.get("SANDERLING_CACHE", ROOT / "var/image-cache"))
# The folder of the fleet whose image is booted; releases are stored there, too.
FLEET = CACHE / "fleet"
IMAGE = "pi3-bookworm.img"
# Twice the image: the last partition is to grow.
CARD_BYTES = 4 << 30
PATIENCE_S = {"virt": 900, "raspi3b": 2400}
# More than ssh takes to find that nobody is there (below).
ANSWER_S = 120
INVENTORY = """
name = "campus"

[[iad]]
name = "iad4"

[iad.master]
address = "127.0.0.1"
local = true
listen = "127.0.0.1"
nodes_address = "{host}"
public_port = {public}
nodes_port = {nodes}
operator_port = {operator}

[[iad.node]]
name = "n1"
address = "127.0.0.1"
port = {ssh1}
model = "pi3"
areas = ["b1/f4/r413"]

[[iad.node.sensor]]
driver = "synthetic"

[[iad.node]]
name = "n2"
address = "127.0.0.1"
port = {ssh2}
model = "pi3"
areas = ["b1/f7/r717"]

[[iad.node.sensor]]
driver = "replay"
options = {{ room = "717" }}
"""


def wanted() -> str:
    """What make test-image was asked for: 1, page, slow, or nothing."""
    return os.environ.get(VARIABLE, "")


def missing() -> str:
    """Why no Pi can be emulated here; empty if one can."""
    if wanted() not in {"1", "page", "slow"}:
        return "only with make test-image"
    if lacking := rootfs.missing():
        return lacking
    for program, package in ((emulate.PROGRAM, "qemu-system-arm"), ("ssh", "openssh-client")):
        if shutil.which(program) is None:
            return f"{program} is missing; apt install {package}"
    return ""


class Campus:
    """A fleet of two Pis, whose master runs here. `root` may have what a former one left."""

    def __init__(self, root: Path) -> None:
        self.folder = Folder(root)
        root.mkdir(parents=True, exist_ok=True)
        names = ("public", "nodes", "operator", "ssh1", "ssh2")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.folder.inventory.write_text(INVENTORY.format(host=emulate.HOST_ADDRESS, **self.ports))
        self.fleet("keys", "init")
        self.inventory = load(self.folder)
        self.store = Store(self.folder)

    def fleet(self, *words: str | Path, check: bool = True) -> str:
        """What a `fleet` command prints on standard output."""
        command = [BIN / "fleet", *words, "--fleet", self.folder.root]
        environment = {**os.environ, "SANDERLING_CACHE": str(CACHE)}
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, env=environment, timeout=4200
        )
        if check and done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def build(self, *words: str | Path) -> None:
        """Build the image for its cards, of the sources as they are."""
        self.fleet("image", "build", "--model", "pi3", *words)

    def card(self, node: str, name: str = IMAGE) -> Path:
        """A card flashed for a node."""
        path = self.folder.root / f"{node}.img"
        image = self.folder.images / name
        path.unlink(missing_ok=True)
        self.fleet("image", "flash", image, "--node", f"iad4/{node}", "--device", path, "--yes")
        os.truncate(path, CARD_BYTES)
        return path

    def start_master(self) -> subprocess.Popen[bytes]:
        """The master, as `fleet deploy` would have it started."""
        [host] = [each for each in hosts(self.inventory) if each.is_local]
        plan = local.plan(self.folder, self.inventory, host, self.store)
        local.write(plan)
        program, *words = plan.command.split()
        return subprocess.Popen([BIN / program, *words], stdin=subprocess.DEVNULL)


class Pi:
    """A booted card."""

    def __init__(self, campus: Campus, node: str, card: Path, machine: str = "virt") -> None:
        self.campus, self.node, self.card, self.machine = campus, node, card, machine
        self.port = campus.ports[f"ssh{node[1:]}"]
        self.console = card.with_name(f"{card.name}.console")
        words = ["--machine", machine, "--ssh-port", str(self.port), "--console", self.console]
        self._qemu = subprocess.Popen(
            [BIN / "fleet", "image", "emulate", card, *words],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ssh(self, command: str, *, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """A command on the Pi, logged in with the fleet's key to the pinned host key alone."""
        options = {
            "UserKnownHostsFile": self.campus.folder.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "20",
            # QEMU's network keeps the connection to a guest that is gone open. An emulated Pi may
            # be slow to answer.
            "ServerAliveInterval": "10",
            "ServerAliveCountMax": "6",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        identity = ["-F", "/dev/null", "-i", self.campus.store.operator_key, "-p", str(self.port)]
        return subprocess.run(
            ["ssh", *identity, *words, "fleet@127.0.0.1", command],
            capture_output=True,
            check=False,
            text=True,
            timeout=timeout_s,
        )

    def run(self, command: str) -> str:
        """The output of a command that must succeed."""
        done = self.ssh(command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, command: str) -> str:
        """The output of a command; empty where it fails, or nobody answers (in time)."""
        try:
            done = self.ssh(command, timeout_s=ANSWER_S)
        except subprocess.TimeoutExpired:  # it connected to a guest that was going down
            return ""
        return "" if done.returncode else done.stdout

    def reboot(self) -> None:
        """Have it start again, and wait until another boot than this one is up."""
        boot_id = self.run(BOOT_ID)
        self.ask("sudo systemctl reboot")  # it may be gone before it can say so
        self.await_that(lambda: self.ask(BOOT_ID) not in {"", boot_id}, "it is back")
        self.await_up()

    def await_up(self) -> None:
        """Wait until it has booted: sshd answers, and systemd has started everything."""
        self.await_that(lambda: self.ask("echo up"), "sshd answers")
        state = "systemctl is-system-running --wait || true"
        self.await_that(lambda: self.ask(state).strip() in BOOTED, "systemd has started everything")

    def await_that(self, holds, what: str) -> None:
        """Wait until something holds; the guest's end is noticed at once."""
        until = time.monotonic() + PATIENCE_S[self.machine]
        while not holds():
            try:
                self._qemu.wait(1)
            except subprocess.TimeoutExpired:
                if time.monotonic() < until:
                    continue
            tail = self.console.read_text(errors="replace")[-2000:]
            raise TimeoutError(f"{self.node}: not yet: {what}; its console:\n{tail}")

    def close(self) -> None:
        """Cut its power."""
        self._qemu.send_signal(signal.SIGTERM)
        self._qemu.wait(60)


BOOTED = {"running", "degraded"}
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
