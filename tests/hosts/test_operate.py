"""Going back, replacing, starting again, looking: the rest of an operator's day."""

from __future__ import annotations

import json

from testkit.desk import await_
from testkit.hosts import boot
from tests.hosts.testbed import IAD


def test_rollback_brings_back_the_release_before(fleet):
    before = fleet.release
    after = fleet.another("0.4.0")
    fleet.want(after)
    deployed = fleet.deploy()
    assert deployed.status == 0, deployed
    ended = fleet.desk.fleet("rollback", "--iad", IAD, "--yes")
    assert ended.status == 0, ended
    fleet.want(before)
    assert {fleet.running(name) for name in fleet.hosts} == {before}
    fleet.results.tell(
        f"`{ended.command}` after an upgrade",
        ended.err.splitlines()[-1],
        f"all hosts run {before} again",
    )


def test_a_dead_host_is_replaced_by_one_that_takes_over_its_name_areas_and_keys(fleet):
    host = fleet.hosts["n2"]
    host.kill()
    await_(lambda: "n2" not in fleet.desk.live(IAD), "n2 to be missed")
    host.flash(fleet.desk.store)
    boot([host])
    ended = fleet.desk.fleet("replace", f"{IAD}/n2", "--yes")
    assert ended.status == 0, ended
    fleet.results.tell(
        f"iad4/n2 died; a new card with the same name was put in, `{ended.command}`",
        ended.err.splitlines()[-1],
        "the successor answers for its areas",
    )


def test_hosts_are_started_again_a_few_at_a_time(fleet):
    before = {name: boot_id(host) for name, host in fleet.hosts.items()}
    ended = fleet.desk.fleet("reboot", "--iad", IAD, "--limit", "iad4/n*", "--serial", "2", "--yes")
    assert ended.status == 0, ended
    after = {name: boot_id(host) for name, host in fleet.hosts.items()}
    assert {name for name in before if before[name] != after[name]} == fleet.hosts.keys() - {
        "master"
    }
    fleet.results.tell(
        f"`{ended.command}`", ended.err.splitlines()[-1], "every node has a new boot"
    )


def test_status_exec_logs_and_doctor_see_the_hosts(fleet):
    status = fleet.desk.fleet("status", "--iad", IAD, "--json")
    assert status.status == 0, status
    assert json.loads(status.out)
    said = fleet.desk.fleet("exec", "--iad", IAD, "--", "hostname")
    assert said.status == 0, said
    assert all(name in said.out for name in fleet.hosts)
    logs = fleet.desk.fleet("logs", "tail", "--iad", IAD, "--limit", "iad4/n1", "--lines", "5")
    assert logs.status == 0, logs
    assert "n1" in logs.out
    doctor = fleet.desk.fleet("doctor", "--iad", IAD)
    fleet.results.tell(
        f"`{doctor.command}` on a fleet that is well",
        tuple(doctor.out.splitlines()[-2:]) or "nothing",
        f"status {doctor.status}",
    )


def boot_id(host) -> str:
    return host.run("cat", "/proc/sys/kernel/random/boot_id")
