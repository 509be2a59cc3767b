"""Two hundred simulated hosts behind one sshd, in a network namespace: each has a loopback address
of its own. Packets to one in twenty are dropped silently, as for a host that is off."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agent.wire.edge_config import EdgeSensor
from bench.output import Result, result
from fleet.common import toml
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master, Node, Ssh
from fleet.keys.store import Store
from testkit.desk import BIN
from testkit.nspawn import run as run_command

HOSTS = 200
DEAD_EVERY = 20
PORT = 2222
CONNECT_S = 5.0
PARALLEL = 50
SPACE = "sanderling-many"
SSHD = Path("/usr/sbin/sshd")
SSHD_CONFIG = """
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile {folder}/pid
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 1000
LogLevel QUIET
"""
# Connects, authenticates both sides and closes: the part common to every other number here.
HANDSHAKES = """
import json, sys, threading, socket, paramiko
from concurrent.futures import ThreadPoolExecutor
given = json.load(sys.stdin)
key = paramiko.PKey.from_path(given["key"])
def shake(address):
    try:
        link = socket.create_connection((address, given["port"]), given["connect_s"])
    except OSError:
        return
    transport = paramiko.Transport(link)
    transport.start_client(timeout=60)
    transport.auth_publickey("root", key)
    transport.close()
with ThreadPoolExecutor(given["parallel"]) as pool:
    list(pool.map(shake, given["addresses"]))
"""

FACTS = """
import sys
from pathlib import Path
from fleet.inspect.facts import gather
from fleet.inventory.folder import Folder
from fleet.ssh.connect import open_host
from fleet.ssh.fanout import for_each
from fleet.inventory.loader import load
from fleet.inventory.selection import select
folder = Folder(Path(sys.argv[1]))
fleet = load(folder)
def look(host):
    with open_host(folder, fleet, host) as connection:
        return gather(connection)
hosts = select(fleet, limit="iad1/n*")
sys.exit(sum(each.value is not None for each in for_each(hosts, look)) != 190)
"""


def many(folder: Path) -> Iterator[Result]:
    """Durations of a command on all of them and of gathering their facts, against bare
    handshakes."""
    fleet = _inventory()
    where = Folder(folder)
    where.inventory.write_text(toml.dump(fleet))
    store = Store(where)
    store.ensure(fleet)
    addresses = [node.address for node in fleet.iad[0].node]
    with _sshd(folder, store, addresses):
        pin = " ".join((folder / "host.pub").read_text().split()[:2])
        where.known_hosts.write_text("".join(f"[{a}]:{PORT} {pin}\n" for a in addresses))
        given = {
            "key": str(store.operator_key),
            "port": PORT,
            "connect_s": CONNECT_S,
            "parallel": PARALLEL,
            "addresses": addresses,
        }
        handshakes_s = _timed([sys.executable, "-c", HANDSHAKES], stdin=json.dumps(given))
        options = (
            f"-i {store.operator_key} -p {PORT} -o BatchMode=yes -o LogLevel=ERROR"
            f" -o UserKnownHostsFile={where.known_hosts} -o ConnectTimeout={CONNECT_S:.0f}"
        )
        ssh = ["xargs", "-P", str(PARALLEL), "-I", "{}", "ssh", *options.split(), "root@{}", "true"]
        ssh_s = _timed(ssh, stdin="\n".join(addresses))
        shared = ("--fleet", str(folder), "--limit", "iad1/n*")
        exec_s = _timed([BIN / "fleet", "exec", *shared, "--", "true"])
        facts_s = _timed([sys.executable, "-c", FACTS, str(folder)])
    about = f"{HOSTS} hosts, {HOSTS // DEAD_EVERY} of them dead"
    bare = "handshakes alone (paramiko)"
    yield result(f"fleet exec true: {about}", exec_s, "s", bare, handshakes_s)
    yield result(f"facts: {about}", facts_s, "s", bare, handshakes_s)
    yield result(f"fleet exec true: {about}", exec_s, "s", "ssh true (OpenSSH)", ssh_s)


def _inventory() -> Inventory:
    nodes = tuple(
        Node(
            name=f"n{number}",
            address=f"127.1.{number // 250}.{number % 250 + 1}",
            areas=(f"b1/f1/r{number}",),
            model="host",
            sensor=(EdgeSensor(driver="synthetic"),),
        )
        for number in range(HOSTS)
    )
    ssh = Ssh(user="root", port=PORT, connect_s=CONNECT_S)
    master = Master(address="127.0.0.1", local=True)
    return Inventory(name="many", ssh=ssh, iad=(Iad(name="iad1", master=master, node=nodes),))


@contextlib.contextmanager
def _sshd(folder: Path, store: Store, addresses: list[str]) -> Iterator[None]:
    run_command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host")
    (folder / "authorized").write_text(store.operator_public + "\n")
    (folder / "sshd_config").write_text(SSHD_CONFIG.format(port=PORT, folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)
    with contextlib.suppress(RuntimeError):  # left by a run that was killed
        run_command("ip", "netns", "delete", SPACE)
    run_command("ip", "netns", "add", SPACE)
    try:
        run_command("ip", "-n", SPACE, "link", "set", "lo", "up")
        for dead in addresses[::DEAD_EVERY]:
            rule = ("-A", "INPUT", "-d", dead, "-j", "DROP")
            run_command("ip", "netns", "exec", SPACE, "iptables", "-w", *rule)
        # Otherwise every session would read the start-up files of this machine's root shell, all at
        # once.
        home = folder / "home"
        home.mkdir()
        start = f"mount --bind {home} /root && exec {SSHD} -f {folder}/sshd_config"
        run_command(*_inside("sh", "-c", start))
        try:
            yield
        finally:
            run_command("kill", (folder / "pid").read_text().strip())
    finally:
        run_command("ip", "netns", "delete", SPACE)


def _inside(*command: str | Path) -> list[str | Path]:
    return ["ip", "netns", "exec", SPACE, *command]


def _timed(command: list[str | Path], stdin: str = "") -> float:
    """Duration in seconds; a failure because of the dead hosts is expected."""
    begun_s = time.perf_counter()
    subprocess.run(
        _inside(*command), input=stdin, text=True, check=False, timeout=600, capture_output=True
    )
    return time.perf_counter() - begun_s
