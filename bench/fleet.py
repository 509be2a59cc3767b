"""The `fleet` command on many hosts at a time, against its theoretical floor and a peer.

Parts that boot or simulate hosts need root; without it they are skipped, which is said on stderr.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.fleet_many import SSHD, many
from bench.fleet_peer import pyinfra_s
from bench.output import CannotRunError, Result, interleaved, result
from lab import provenance
from testkit import releases
from testkit.desk import BIN, Ended
from testkit.hosts import boot
from tests.hosts.results import FIGURES, Results, put
from tests.hosts.site import Site, missing
from tests.hosts.testbed import IAD, MASTER, Testbed

ROUNDS = 7
# Next to the tests' testbed.
BRIDGE, NETWORK = "bench", "10.77.2.0/24"
NODES = f"{IAD}/n*"


def run() -> Iterator[Result]:
    """Yield the results; with SANDERLING_HOSTS=results also write them into the page."""
    wanted = os.environ.setdefault("SANDERLING_HOSTS", "1")
    begun = provenance.now("python -m bench fleet")
    told = []
    for each in _measures():
        told.append(each)
        yield each
    if wanted == "results":
        put(FIGURES, _table(begun, told))


def _measures() -> Iterator[Result]:
    yield _help()
    if reason := missing():
        sys.stderr.write(f"fleet: nothing with hosts is measured: {reason}\n")
        return
    if not SSHD.exists():
        raise CannotRunError("an SSH server; apt-get install openssh-server")
    with tempfile.TemporaryDirectory() as folder:
        yield from many(Path(folder))
    yield from _deploy()


def _table(begun: provenance.Provenance, told: list[Result]) -> str:
    rows = [
        f"| {each['name']} | {each['value']:g} {each['unit']} | {each['peer']} | {each['ratio']} |"
        for each in told
    ]
    head = ["| what | took | beside it | ratio |", "|---|---|---|---|"]
    return "\n".join([begun.table().markdown(), "", *head, *rows])


def _help() -> Result:
    def timed(*command: str | Path) -> Callable[[], float]:
        def measure() -> float:
            begun_s = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - begun_s

        return measure

    ours, bare = interleaved(
        ROUNDS, timed(BIN / "fleet", "--help"), timed(sys.executable, "-c", "pass")
    )
    return result("fleet --help", ours, "ms", "python -c pass", bare)


def _deploy() -> Iterator[Result]:
    """Eight nodes from bare Debian, one alone and all at once, and an upgrade against a peer."""
    folder = Path(tempfile.mkdtemp(prefix="sanderling-bench-"))
    bed = Testbed(folder, bridge=BRIDGE, network=NETWORK)
    bed.write_folder()
    releases.bring(bed.folder)
    site = Site(bed, Results())
    try:
        site.init()
        _done(site.desk.fleet("release", "build", "--machine", "x86_64"))
        releases.keep(bed.folder)
        site.want(releases.latest(bed.folder).release)
        _done(site.deploy("--limit", f"{IAD}/{MASTER}"))
        alone = site.deploy("--limit", f"{IAD}/n1")
        _done(alone)
        host = bed.hosts["n1"]
        host.stop()
        host.flash(site.desk.store)
        boot([host])
        before_s = _cpu_s(site)
        together = site.deploy("--limit", NODES)
        _done(together)
        cpu_s = (_cpu_s(site) - before_s) / (os.cpu_count() or 1)
        floor_s = max(alone.seconds, cpu_s)
        yield result(
            "deploy to 8 bare hosts",
            together.seconds,
            "s",
            "max(one alone, CPU of all / processors)",
            floor_s,
            alone_s=round(alone.seconds, 2),
            cpu_s=round(cpu_s, 2),
        )
        site.want(site.another("0.1.1"))
        upgrade = site.deploy("--limit", NODES, "--serial", "100%")
        _done(upgrade)
        peer_s = pyinfra_s(site)
        yield result(
            "upgrade of 8 hosts, health gate included",
            upgrade.seconds,
            "s",
            "pyinfra: copy, unpack, link, restart",
            peer_s,
        )
    finally:
        site.close()
        shutil.rmtree(folder)


def _cpu_s(site: Site) -> float:
    """CPU time of all hosts and of the commands so far."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + sum(host.cpu_s() for host in site.hosts.values())


def _done(ended: Ended) -> None:
    if ended.status:
        raise RuntimeError(f"{ended.command}: {ended.err}")
