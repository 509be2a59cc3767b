"""Upgrades under load, and releases that are no good."""

from __future__ import annotations

import json

from fleet.common import exits
from testkit import releases
from tests.hosts.load import Load
from tests.hosts.site import outcomes, report
from tests.hosts.testbed import IAD, SCHEDULER

JOURNAL = "var/lib/sanderling-deploy/journal.jsonl"
# What an answer may say of a node that is being restarted.
AWAY = {"node_down", "timeout", "no_node", "iad_unreachable"}


def test_an_upgrade_under_load_loses_no_query(fleet):
    fleet.want(fleet.another("0.2.0"))
    with Load(fleet.desk, (IAD, SCHEDULER)) as load:
        ended = fleet.deploy("--json")
    assert ended.status == 0, ended
    assert set(outcomes(ended).values()) == {"changed"}
    assert not load.silences(), load.counts()
    assert not load.of("refused"), load.counts()
    assert load.reasons().keys() <= AWAY, load.counts()
    fleet.results.tell(
        f"an upgrade of {len(fleet.hosts)} hosts while two clients ask all areas, one through the "
        "master of iad4, which is restarted too, one through that of iad1",
        ended.err.splitlines()[-1],
        load.counts(),
    )


def test_a_release_that_crashes_is_rolled_back_on_the_canary_and_goes_no_further(fleet):
    before = fleet.release
    broken = fleet.another("0.3.0", {releases.MAIN: releases.crashing})
    with Load(fleet.desk, (IAD, SCHEDULER)) as load:
        ended = fleet.deploy("--release", broken, "--json")
    assert ended.status == exits.FAILED, ended
    found = outcomes(ended)
    assert found.pop(f"{IAD}/n1") == "rolled_back"
    assert set(found.values()) == {"skipped"}, ended.err
    assert {fleet.running(name) for name in fleet.hosts} == {before}
    [canary] = [host for host in report(ended)["hosts"] if host["outcome"] == "rolled_back"]
    assert "this release crashes" in canary["reason"]
    last = json.loads((fleet.hosts["n1"].root / JOURNAL).read_text().splitlines()[-1])
    assert (last["outcome"], last["release"]) == ("rolled_back", broken)
    assert not load.silences(), load.counts()
    lines = [line for line in ended.err.splitlines() if "this release crashes" in line]
    fleet.results.tell(
        "a release whose agent crashes",
        (lines[-1], ended.err.splitlines()[-1]),
        f"all hosts run the release before; the canary's journal has the reason; {load.counts()}",
    )
