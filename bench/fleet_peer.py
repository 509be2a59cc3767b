"""pyinfra, in a virtual environment of its own, doing the same to the same hosts."""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from pathlib import Path

from fleet.release.bundle import Target, find
from testkit.root_file_system import ROOT
from tests.hosts.site import Site
from tests.hosts.testbed import MASTER

VERSION = "3.10.0"
FOLDER = ROOT / f"var/cache/pyinfra-{VERSION}"
INVENTORY = """
nodes = [
    (address, {{
        "ssh_user": "fleet",
        "ssh_key": "{key}",
        "ssh_known_hosts_file": "{known_hosts}",
    }})
    for address in {addresses}
]
"""
DEPLOY = """
from pyinfra.operations import files, server, systemd

files.put(src="{bundle}", dest="/tmp/release.tar.xz")
server.shell(
    commands=[
        "mkdir -p /opt/sanderling/releases/{release}-peer",
        "python3 -m tarfile -e /tmp/release.tar.xz /opt/sanderling/releases/{release}-peer",
        "ln -sfn releases/{release} /opt/sanderling/current",
    ],
    _sudo=True,
)
systemd.service("sanderling-edge", restarted=True, _sudo=True)
"""


def pyinfra_s(site: Site) -> float:
    """Seconds to copy the release, unpack it, set the link and restart the agent of all nodes."""
    program = _installed()
    bundle = find(site.bed.folder, site.release, Target("x86_64", "3.11"))
    folder = site.bed.folder.root
    hosts = [host.address for name, host in site.hosts.items() if name != MASTER]
    inventory = INVENTORY.format(
        key=site.desk.store.operator_key,
        known_hosts=site.bed.folder.known_hosts,
        addresses=hosts,
    )
    (folder / "inventory.py").write_text(inventory)
    (folder / "deploy.py").write_text(DEPLOY.format(bundle=bundle.path, release=site.release))
    begun_s = time.perf_counter()
    done = subprocess.run(
        [program, "--yes", "inventory.py", "deploy.py"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"pyinfra: {done.stdout[-500:]}{done.stderr[-500:]}")
    return time.perf_counter() - begun_s


def _installed() -> Path:
    program = FOLDER / "bin/pyinfra"
    if not program.exists():
        sys.stderr.write("installing pyinfra\n")
        venv.create(FOLDER, with_pip=True)
        pip = [FOLDER / "bin/python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"pyinfra=={VERSION}"], check=True)
    return program
