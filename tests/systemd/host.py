"""A machine with systemd on this one: this one's files under an overlay, booted by systemd-nspawn.

Root only. Nothing of this machine is written to: the agent, the packages that it needs and the unit
are copied into the overlay, to where docs/run/systemd.md has them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from testkit import nspawn
from testkit.nspawn import PATIENCE_S

ROOT = Path(__file__).parents[2]
UNIT = "sanderling-edge.service"
PYTHON = Path("/usr/bin/python3")
PACKAGES = ("msgspec", "pyzmq.libs", "sdnotify", "serial", "zmq")
PROGRAM = f"""\
#!{PYTHON}
import sys
sys.path.insert(0, "/opt/sanderling/current/lib")
from agent.edge.main import main
sys.exit(main())
"""
STUCK = """
import threading
from sensors.base import Channel, Reading

class Stuck:
    channels = (Channel("pressure", "kilopascal", 30.0, 125.0),)
    reads = 0

    def read(self):
        self.reads += 1
        if self.reads > 3:
            threading.Event().wait()
        return Reading((100.0,))

    def preload(self):
        return ()

    def close(self):
        pass

def open_driver(options):
    options.finish()
    return Stuck()
"""
CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "tcp://127.0.0.1:5701"
[history]
path = "/var/lib/sanderling/history.sqlite"
[[sensor]]
driver = "synthetic"
"""


def missing() -> str:
    """Why there can be no such machine here; empty if there can."""
    if os.environ.get("SANDERLING_SYSTEMD") != "1":
        return "only with make test-systemd"
    if os.geteuid():
        return "needs root"
    for program in ("systemd-nspawn", "nsenter", "/lib/systemd/systemd", str(PYTHON)):
        if shutil.which(program) is None:
            return f"{program} is not installed (Debian: systemd-container)"
    found = subprocess.run(
        [PYTHON, "-c", "import sys; print(sys.version_info[:2])"],
        capture_output=True,
        check=False,
        text=True,
    )
    if found.stdout.strip() != str(sys.version_info[:2]):
        return f"{PYTHON} is another version than this one, {sys.version_info[:2]}"
    return nspawn.obstacle()


class Host(nspawn.Machine):
    """The machine; it is up when it has been made."""

    def __init__(self, folder: Path) -> None:
        super().__init__("test", folder, "--private-network")
        nspawn.overlay(Path("/"), folder)
        try:
            self._install()
            self.start()
            self.await_ready()
        except BaseException:
            self.close()
            raise

    def configure(self, text: str = "", *, unit: str = "") -> None:
        """Have this configuration after the common one, and a drop-in for the unit."""
        (self.root / "etc/sanderling/edge.toml").write_text(CONFIG + text)
        drop_in = self.root / f"etc/systemd/system/{UNIT}.d/test.conf"
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text(unit)
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "reset-failed", UNIT, check=False)

    def shows(self, name: str) -> str:
        """A property of the unit."""
        return self.run("systemctl", "show", "--value", "-p", name, UNIT).strip()

    def await_entry(self, text: str, run: str = "") -> dict[str, str]:
        """The first entry of the journal whose message has `text`, of the unit's run with that
        invocation id, or the one now."""
        since = run or self.shows("InvocationID")
        follow = ["timeout", str(PATIENCE_S), "journalctl", "-f", "-n", "all", "-o", "json"]
        match = [f"_SYSTEMD_INVOCATION_ID={since}", "+", f"INVOCATION_ID={since}"]
        with subprocess.Popen(self.command(*follow, *match), stdout=subprocess.PIPE) as journal:
            assert journal.stdout is not None
            for line in journal.stdout:
                entry: dict[str, str] = json.loads(line)
                if text in entry.get("MESSAGE", ""):
                    journal.terminate()
                    return entry
        raise TimeoutError(f"no entry with {text!r} within {PATIENCE_S} s")

    def close(self) -> None:
        """Shut it down."""
        self.stop()
        nspawn.unmount(self.folder)

    def _install(self) -> None:
        release = self.root / "opt/sanderling/releases/test"
        library = release / "lib"
        (release / "bin").mkdir(parents=True)
        site = Path(msgspec.__file__).parents[1]
        for name in PACKAGES:
            shutil.copytree(site / name, library / name)
        for name in ("_core", "agent", "sensors"):
            shutil.copytree(ROOT / name, library / name)
        (library / "stuck.py").write_text(STUCK)
        about = library / "stuck-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[sanderling.sensors]\nstuck=stuck:open_driver\n")
        program = release / "bin/sanderling-edge"
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (self.root / "opt/sanderling/current").symlink_to("releases/test")
        (self.root / "etc/sanderling").mkdir()
        units = self.root / "etc/systemd/system"
        shutil.copy(ROOT / "images/systemd" / UNIT, units)
        users = self.root / "usr/lib/sysusers.d/sanderling.conf"
        shutil.copy(ROOT / "images/systemd/sanderling.sysusers", users)
