"""Restarts: a few at a time, in order, until one does not come back; hosts that answer at once."""

import threading
from contextlib import contextmanager

import pytest

from fleet.common import exits
from fleet.inventory.model import Iad, Master, Node
from fleet.inventory.parties import HostOf
from fleet.rollout import reboot as reboots
from fleet.rollout.reboot import FORLORN, HostReboot, Options, RebootReport, reboot, status_of
from fleet.rollout.rollout import Share
from fleet.ssh.errors import HostError


def fleet_of(count: int) -> list[HostOf]:
    nodes = tuple(
        Node(name=f"n{i}", address=f"10.0.0.{i}", areas=(f"b1/r{i}",)) for i in range(count)
    )
    iad = Iad(name="iad4", master=Master(address="10.0.1.1"), node=nodes)
    return [HostOf(iad, None), *(HostOf(iad, node) for node in nodes)]


class Machines:
    """Hosts that go down and come back; `broken` do not, `deaf` cannot be logged in to."""

    def __init__(self, broken: tuple[str, ...] = (), deaf: tuple[str, ...] = ()) -> None:
        self.broken, self.deaf = broken, deaf
        self.down: set[str] = set()
        self.most_down = 0
        self.order: list[str] = []
        self.lock = threading.Lock()

    def before(self, host: HostOf) -> None:
        if host.name in self.deaf:
            raise HostError("dead", "no way to it")

    def restart(self, host: HostOf) -> None:
        with self.lock:
            self.order.append(host.name)
            self.down.add(host.name)
            self.most_down = max(self.most_down, len(self.down))

    def await_back(self, host: HostOf) -> None:
        if host.name in self.broken:
            raise HostError("dead", "not back")
        with self.lock:
            self.down.discard(host.name)


NONE = Share(0, percent=False)


def told(machines: Machines, count: int, serial: Share, max_fail: Share = NONE) -> RebootReport:
    hosts = fleet_of(count)
    options = Options(serial, max_fail, 1.0, 8, yes=True, as_json=False)
    return reboot(hosts, machines, options, lambda _: None)


def test_all_come_back_and_the_master_is_the_last():
    machines = Machines()
    report = told(machines, 9, Share(3, percent=False))
    assert {host.outcome for host in report.hosts} == {"rebooted"}
    assert machines.order[-1] == "iad4/master"
    assert len(machines.order) == 10
    assert machines.most_down <= 3
    assert status_of(report) == exits.DONE


def test_one_at_a_time_is_one_at_a_time():
    machines = Machines()
    told(machines, 6, Share(1, percent=False))
    assert machines.most_down == 1


def test_the_first_that_does_not_come_back_stops_it():
    machines = Machines(broken=tuple(f"iad4/n{i}" for i in range(6)))
    report = told(machines, 6, Share(1, percent=False))
    outcomes = [host.outcome for host in report.hosts]
    assert outcomes.count("not_back") == 1
    assert outcomes.count("skipped") == 6
    assert report.stopped
    assert len(machines.order) == 1
    assert status_of(report) == exits.FAILED


def test_as_many_as_allowed_may_stay_away():
    machines = Machines(broken=("iad4/n2",))
    report = told(machines, 6, Share(1, percent=False), Share(1, percent=False))
    outcomes = {host.host: host.outcome for host in report.hosts}
    assert outcomes.pop("iad4/n2") == "not_back"
    assert set(outcomes.values()) == {"rebooted"}
    assert not report.stopped


def test_who_cannot_be_logged_in_to_is_not_touched_and_others_are():
    machines = Machines(deaf=("iad4/n1",))
    report = told(machines, 3, Share(1, percent=False))
    outcomes = {host.host: host.outcome for host in report.hosts}
    assert outcomes == {
        "iad4/master": "rebooted",
        "iad4/n0": "rebooted",
        "iad4/n1": "failed",
        "iad4/n2": "rebooted",
    }
    assert "iad4/n1" not in machines.order


def test_nodes_are_left_alone_when_their_master_cannot_be_logged_in_to():
    machines = Machines(deaf=("iad4/master",))
    report = told(machines, 3, Share(1, percent=False))
    assert machines.order == []
    assert {host.reason for host in report.hosts if host.outcome == "skipped"} == {FORLORN}


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (("rebooted", "rebooted"), exits.DONE),
        (("rebooted", "failed"), exits.FAILED),
        (("not_back", "skipped"), exits.FAILED),
        (("failed", "skipped"), exits.NOTHING),
    ],
)
def test_the_exit_status_says_whether_anything_was_restarted(outcomes, status):
    report = RebootReport(tuple(HostReboot(str(n), each) for n, each in enumerate(outcomes)))
    assert status_of(report) == status


def test_of_what_a_host_says_to_the_order_the_end_is_kept(monkeypatch):
    @contextmanager
    def opened(*_):
        yield None

    def stream(_connection, _command, take, **_options):
        for _ in range(100):
            take("stdout", b"x" * 32_768)
        return 1

    monkeypatch.setattr(reboots, "open_host", opened)
    monkeypatch.setattr(reboots, "stream", stream)
    with pytest.raises(HostError) as caught:
        reboots._Real(None, None, 0.0).restart(None)
    assert len(str(caught.value)) == reboots.MAX_SAID
