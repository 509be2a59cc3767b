"""The root file system of the hosts: bare Debian, made once and kept by the hash of its recipe."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Final

from testkit.nspawn import last_line, run

ROOT: Final = Path(__file__).parents[1]
CACHE: Final = ROOT / "var/cache/hosts"
SUITE: Final = "bookworm"
# What a Debian or Raspberry Pi OS has on it; nothing of the project's.
PACKAGES: Final = (
    "dbus", "iproute2", "openssh-server", "python3", "sudo", "systemd", "systemd-sysv", "udev",
)  # fmt: skip
# Commands in it, after the packages.
SETTINGS: Final = """\
useradd --create-home --shell /bin/bash fleet
echo 'fleet ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/fleet
chmod 440 /etc/sudoers.d/fleet
install -d -m 700 -o fleet -g fleet /home/fleet/.ssh
rm -f /etc/ssh/ssh_host_*
"""
SUDOERS: Final = "etc/sudoers.d/fleet"  # of these
# Half a minute, but where much else is at work.
PATIENCE_S: Final = 1_800.0
# What apt says when it cannot reach a mirror.
AWAY: Final = re.compile(
    "failed to fetch|could not (resolve|connect)|unable to connect", re.IGNORECASE
)


class NoMirrorError(RuntimeError):
    """Debian's packages cannot be had here."""


def recipe() -> str:
    """All that decides what is in it, but for the day."""
    return json.dumps([SUITE, PACKAGES, SETTINGS])


def ensure() -> Path:
    """Its folder; made where it is missing (half a minute), from the mirror that apt here uses.
    NoMirrorError."""
    made = CACHE / hashlib.sha256(recipe().encode()).hexdigest()[:16]
    if made.is_dir():
        return made
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = made.with_suffix(".partial")
    if partial.exists():
        _unmount_below(partial)
        shutil.rmtree(partial)
    try:
        run(
            "mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory", "--quiet",
            f"--include={','.join(PACKAGES)}", SUITE, partial, *sources(), patience_s=PATIENCE_S,
        )  # fmt: skip
    except RuntimeError as error:
        if AWAY.search(str(error)):
            raise NoMirrorError(f"no mirror of Debian answers: {last_line(error)}") from None
        raise
    run("chroot", partial, "sh", "-e", stdin=SETTINGS.encode())
    return partial.rename(made)


def _unmount_below(folder: Path) -> None:
    """What mmdebstrap mounted there, if it was killed: this machine's /proc and /sys."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in reversed(points):
        if Path(point).is_relative_to(folder):
            run("umount", "--lazy", point)


def sources() -> list[str]:
    """apt's lines for this machine's mirrors of the suite; none where it uses another suite."""
    wanted = ("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)")
    found = sorted(set(run(*wanted, "Created-By: Packages").splitlines()))
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    return [f"deb {line}" for line in found if line.split()[1] in suites]
