"""What masters and nodes have logged comes to the operator's lake, whoever is dead meanwhile."""

from __future__ import annotations

import json

from fleet.lake.schema.folder import Lake
from testkit.desk import await_
from testkit.hosts import boot
from tests.hosts.testbed import IAD

HISTORY = "/var/lib/sanderling/history.sqlite"
EDGE = "sanderling-edge.service"


def test_records_and_readings_come_from_all_hosts(fleet, tmp_path):
    lake = Lake(tmp_path / "lake")
    # A node that stops has all of its readings in row groups.
    fleet.hosts["n1"].run("systemctl", "restart", EDGE)
    await_(lambda: "n1" in fleet.desk.live(IAD), "n1 to be live")
    assert fleet.answers(IAD)
    ended, rows = pull(fleet, lake)
    assert ended.status == 0, ended
    assert {row["outcome"] for row in rows.values()} == {"done"}
    assert set(rows) == {f"{IAD}/{name}" for name in fleet.hosts}
    assert rows[f"{IAD}/n1"]["readings"] > 0
    await_(lambda: pull(fleet, lake) and landed(lake), "records of a query")
    fleet.results.tell(
        f"`{ended.command}`", ended.err.splitlines()[-1], "records and readings in the landing"
    )


def test_what_was_pulled_is_not_pulled_again_and_files_stay_their_owner_s(fleet, tmp_path):
    lake = Lake(tmp_path / "lake")
    first, _ = pull(fleet, lake)
    again, _ = pull(fleet, lake)
    assert (first.status, again.status) == (0, 0), (first, again)
    lines = landed(lake)
    assert len(lines) == len(set(lines))
    for name, host in fleet.hosts.items():
        if name != "master":
            owners = host.run("sh", "-c", f"stat -c %U {HISTORY}*").split()
            assert set(owners) == {"sanderling"}, (name, owners)


def test_a_dead_host_does_not_spoil_the_others(fleet, tmp_path):
    lake = Lake(tmp_path / "lake")
    host = fleet.hosts["n3"]
    host.kill()
    ended, rows = pull(fleet, lake)
    assert ended.status == 1, ended
    wrong = {name: row["outcome"] for name, row in rows.items() if row["outcome"] != "done"}
    assert wrong == {f"{IAD}/n3": "dead"}
    boot([host])
    ended, rows = pull(fleet, lake)
    assert ended.status == 0, ended
    assert rows[f"{IAD}/n3"]["outcome"] == "done"


def test_an_agent_that_stopped_is_pulled_from_as_well(fleet, tmp_path):
    host = fleet.hosts["n2"]
    host.run("systemctl", "stop", EDGE)
    before = host.run("sh", "-c", f"ls {HISTORY}*")
    ended, rows = pull(fleet, Lake(tmp_path / "lake"))
    assert ended.status == 0, ended
    assert rows[f"{IAD}/n2"]["readings"] > 0
    assert host.run("sh", "-c", f"ls {HISTORY}*") == before
    host.run("systemctl", "start", EDGE)
    await_(lambda: "n2" in fleet.desk.live(IAD), "n2 to be live")


def pull(fleet, lake):
    """The command's end, and what came of each host."""
    ended = fleet.desk.fleet("logs", "pull", "--iad", IAD, "--lake", str(lake.root), "--json")
    return ended, {row["host"]: row for row in json.loads(ended.out)["hosts"]}


def landed(lake):
    """All lines of the master's records."""
    return [
        line
        for file in (lake.records / f"iad={IAD}").glob("*.jsonl")
        for line in file.read_bytes().splitlines()
    ]
