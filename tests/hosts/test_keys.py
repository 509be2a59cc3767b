"""Keys that change, and keys that are put out, while queries are answered."""

from __future__ import annotations

import functools

from testkit.desk import await_
from testkit.hosts import boot
from tests.hosts.load import Load
from tests.hosts.testbed import IAD, SCHEDULER

NODE = "n4"
ALLOWED = "etc/sanderling/allow.toml"
# Five heartbeats: a master looks for a new list, and refuses the node's next message.
OUT_WITHIN_S = 5.0


def starts(fleet) -> dict[str, str]:
    """When each host's agent was started."""
    found = {}
    for name, host in fleet.hosts.items():
        unit = "sanderling-master" if name == "master" else "sanderling-edge"
        wanted = ("systemctl", "show", "--value", "-p", "ExecMainStartTimestampMonotonic", unit)
        found[name] = host.run(*wanted)
    return found


def secrets(fleet) -> dict[str, str]:
    """The first secret key of each host's agent."""
    return {
        name: (host.root / f"etc/sanderling/keys/{kind}.secret").read_text().splitlines()[0]
        for name, host in fleet.hosts.items()
        for kind in ["master" if name == "master" else "node"]
    }


def test_keys_are_rotated_under_load_and_nothing_restarts(fleet):
    before, keys = starts(fleet), secrets(fleet)
    with Load(fleet.desk, (IAD, SCHEDULER)) as load:
        ended = fleet.desk.fleet("keys", "rotate", "--iad", IAD, "--yes")
    assert ended.status == 0, ended
    assert starts(fleet) == before
    after = secrets(fleet)
    assert all(after[name] != keys[name] for name in fleet.hosts)
    fleet.results.tell(
        "all keys of iad4 rotated while two clients ask",
        (ended.err + ended.out).splitlines()[-1],
        f"no agent was restarted; {load.counts()}",
    )
    assert not load.silences(), load.counts()
    assert not load.of("refused"), load.counts()
    assert load.reasons().keys() <= {"node_down", "timeout"}, load.counts()


def test_a_node_that_is_revoked_is_out_within_seconds(fleet):
    area = own_area(fleet, NODE)
    with Load(fleet.desk, (IAD, SCHEDULER)) as load:
        revoked = fleet.desk.fleet("keys", "revoke", f"{IAD}/{NODE}", "--reason", "test", "--yes")
        for iad in (IAD, SCHEDULER):
            missed = functools.partial(load.last_with, area, "node_down", iad)
            await_(missed, f"an answer through {iad} without {NODE}")
    told_s = (fleet.hosts["master"].root / ALLOWED).stat().st_mtime - load.epoch_s
    took_s = max(load.last_with(area, "", iad) - told_s for iad in (IAD, SCHEDULER))
    again = fleet.desk.fleet("keys", "reinstate", f"{IAD}/{NODE}")
    host = fleet.hosts[NODE]
    host.end()
    host.flash(fleet.desk.store)  # a card with the new keys
    boot([host])
    mended = fleet.deploy()
    assert (revoked.status, again.status, mended.status) == (0, 0, 0), (revoked, again, mended)
    fleet.results.tell(
        f"`{revoked.command}` while two clients ask",
        (revoked.err + revoked.out).splitlines()[-1],
        f"the last query that it answered was asked {took_s:.1f} s after its master was told; "
        f"{load.counts()}",
    )
    assert took_s < OUT_WITHIN_S
    assert not load.silences(), load.counts()
    assert load.reasons().keys() <= {"node_down", "timeout"}, load.counts()


def own_area(fleet, name: str) -> str:
    """An area that no other node has."""
    (iad,) = (each for each in fleet.desk.inventory.iad if each.name == IAD)
    others = {area for node in iad.node if node.name != name for area in node.areas}
    [own] = (
        area for node in iad.node if node.name == name for area in node.areas if area not in others
    )
    return own
