"""What goes wrong with one host stays with it, is one line, and is mended by --retry-failed."""

from __future__ import annotations

from contextlib import ExitStack

from fleet.common import exits
from fleet.keys import ssh
from testkit.desk import Ended, await_
from testkit.hosts import boot
from testkit.root_file_system import SUDOERS
from tests.hosts.site import outcomes, report
from tests.hosts.testbed import IAD

RATE = "2mbit"
# How much has arrived when something happens in the middle of an upload.
SOME = 100_000


def line_of(ended: Ended, name: str) -> str:
    """The one line about a host at the end."""
    [line] = {
        line for line in ended.err.splitlines()
        if line.startswith((f"{IAD}/{name}: failed", f"{IAD}/{name}: lost",
                            f"{IAD}/{name}: rolled back"))
        and line.count(": ") > 1  # why: not what is said while it goes on
    }  # fmt: skip
    return line


def test_one_host_each_dies_is_cut_off_is_full_has_another_key_or_wants_a_password(fleet):
    hosts, desk = fleet.hosts, fleet.desk
    fleet.want(fleet.another("0.1.1"))
    sudoers = (hosts["n8"].root / SUDOERS).read_text()
    with ExitStack() as faults:
        for name in ("n3", "n5"):
            faults.enter_context(hosts[name].slow_network(RATE))
        with hosts["n6"].full_disk(left=4_000_000):
            hosts["n7"].set_host_key(ssh.make("another").private)
            (hosts["n8"].root / SUDOERS).write_text("fleet ALL=(ALL) ALL\n")
            deploying = desk.start("deploy", "--iad", IAD, "--yes", "--allow-dirty", "--json")
            await_(lambda: hosts["n3"].uploading > SOME, "an upload to n3")
            hosts["n3"].kill()
            await_(lambda: hosts["n5"].uploading > SOME, "an upload to n5")
            with hosts["n5"].without_network():
                ended = deploying.wait()
    failed = {"n3", "n5", "n6", "n7", "n8"}
    assert ended.status == exits.FAILED, ended
    found = outcomes(ended)
    assert {name for name, outcome in found.items() if outcome == "changed"} == {
        f"{IAD}/{name}" for name in hosts.keys() - failed
    }, ended.err
    kinds = {host["host"].split("/")[1]: host["kind"] for host in report(ended)["hosts"]}
    assert (kinds["n6"], kinds["n7"], kinds["n8"]) == ("disk_full", "key_changed", "sudo")
    assert {kinds["n3"], kinds["n5"]} <= {"lost", "dead", "refused"}
    hosts["n7"].set_host_key(desk.store.host_key(f"{IAD}/n7").private)
    (hosts["n8"].root / SUDOERS).write_text(sudoers)
    boot([hosts["n3"]])
    again = fleet.deploy("--retry-failed", "--json")
    assert again.status == 0, again
    assert outcomes(again) == {f"{IAD}/{name}": "changed" for name in failed}
    for name, done in {
        "n3": "SIGKILL to the init of iad4/n3 in the middle of its upload",
        "n5": "the network of iad4/n5 cut in the middle of its upload (iptables)",
        "n6": "the disk of iad4/n6 full",
        "n7": "another SSH host key on iad4/n7",
        "n8": "sudo asks for a password on iad4/n8",
    }.items():
        fleet.results.tell(
            done,
            line_of(ended, name),
            "in the same run: the 4 others were changed; "
            f"`fleet deploy --retry-failed`: {again.err.splitlines()[-1]}",
        )


def test_interrupted_in_the_middle_it_goes_on_where_it_was(fleet):
    fleet.want(fleet.another("0.1.2"))
    deploying = fleet.desk.start("deploy", "--iad", IAD, "--yes", "--allow-dirty")
    deploying.await_line("n1: done")
    deploying.interrupt()
    ended = deploying.wait()
    assert ended.status == exits.INTERRUPTED, ended
    done = [name for name in fleet.hosts if fleet.running(name) == fleet.release]
    assert 0 < len(done) < len(fleet.hosts)
    again = fleet.deploy("--json")
    assert again.status == 0, again
    assert {name for name, outcome in outcomes(again).items() if outcome == "changed"} == {
        f"{IAD}/{name}" for name in fleet.hosts if name not in done
    }
    fleet.results.tell(
        "Ctrl-C after the canary, then the same command again",
        (ended.err.splitlines()[-1], again.err.splitlines()[-1]),
        "the second run did what the first had left",
    )


def test_of_two_deployments_at_once_the_second_does_nothing(fleet):
    fleet.want(fleet.another("0.1.1"))  # it is on the hosts already
    deploying = fleet.desk.start("deploy", "--iad", IAD, "--yes", "--allow-dirty")
    deploying.await_line("switched")
    second = fleet.deploy()
    first = deploying.wait()
    assert first.status == 0, first
    assert second.status not in {0, exits.FAILED}, second
    assert len(second.err.splitlines()) == 1, second
    fleet.results.tell(
        "a second `fleet deploy` while one is under way",
        second.err.strip(),
        f"status {second.status}; the first one: {first.err.splitlines()[-1]}",
    )


def test_a_master_that_is_killed_in_the_middle_is_waited_for(fleet):
    fleet.want(fleet.another("0.1.2"))
    deploying = fleet.desk.start("deploy", "--iad", IAD, "--yes", "--allow-dirty")
    deploying.await_line("n1: done")
    fleet.hosts["master"].run("systemctl", "kill", "-s", "KILL", "sanderling-master")
    ended = deploying.wait()
    assert ended.status == 0, ended
    fleet.results.tell(
        "the master's agent killed in the middle of a rollout",
        ended.err.splitlines()[-1],
        "systemd started it again, its nodes came back, the rollout waited",
    )
