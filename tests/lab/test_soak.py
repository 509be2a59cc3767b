"""Soak: a slope and its verdict, what is restarted, and three minutes of a real fleet."""

from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest

from agent.alerts.notifications import history_of
from agent.wire.master_config import MasterRecords
from agent.wire.records import NodeEventRecord
from fleet.common import exits
from fleet.simulation.layout import building_fleet, part_of
from lab.chaos.checker import broken
from lab.chaos.fault_plan import Fault
from lab.chaos.fleet import Fleet, sensor
from lab.chaos.history import Alert, Asked, History
from lab.chaos.run import live
from lab.soak.hosted import Step, away, obstacle
from lab.soak.judge import DAY_S, SHORTEST_S, Slope, judge, slope, warm
from lab.soak.pulls import Pulls
from lab.soak.rotations import Rotations
from lab.soak.run import Options, Soaked, judged, latencies, restarts, run, soak
from lab.soak.sampler import KINDS, Series, write_samples
from testkit.waiting import wait_until


def line(percent_a_day, noise=0.0, seconds=36_000, every_s=60):
    return [
        (float(at), 1_000.0 * (1 + percent_a_day / 100 * at / DAY_S) + noise * (-1) ** (at // 600))
        for at in range(0, seconds, every_s)
    ]


@pytest.mark.parametrize("percent", [-3.0, 0.0, 0.5, 40.0])
def test_the_slope_of_a_straight_line_is_found(percent):
    found = slope(line(percent))
    middle = percent / (1 + percent / 100 * 36_000 / DAY_S / 2)
    assert found.percent_a_day == pytest.approx(middle, abs=1e-6, rel=0.01)
    assert found.low == pytest.approx(found.high, abs=1e-6)


def test_noise_widens_the_interval_around_the_slope():
    calm, loud = slope(line(1.0, noise=1.0)), slope(line(1.0, noise=10.0))
    assert loud.high - loud.low > 5 * (calm.high - calm.low) > 0
    assert loud.low < 1.0 < loud.high


@pytest.mark.parametrize(
    ("points", "lasted_s", "verdict"),
    [
        (line(0.0), 36_000, "passed"),
        (line(0.0), 60, "passed"),
        (line(0.5), 36_000, "passed"),
        (line(5.0), 36_000, "failed"),
        (line(5.0), SHORTEST_S - 1, "not shown"),
        (line(0.0, noise=20.0), 36_000, "not shown"),
        (line(0.0)[:3], 36_000, "not shown"),
        ([(0.0, 0.0), (1.0, 0.0)] * 20, 36_000, "not shown"),
        ([], 0, "not shown"),
    ],
)
def test_a_verdict_needs_an_interval_on_one_side_of_the_limit(points, lasted_s, verdict):
    assert judge(slope(points), lasted_s, 1.0) == verdict


def test_the_whole_interval_counts():
    assert judge(Slope(0.5, 0.1, 1.1), SHORTEST_S, 1.0) == "not shown"
    assert judge(Slope(1.5, 1.1, 2.0), SHORTEST_S, 1.0) == "failed"
    assert judge(Slope(0.5, -1.0, 1.0), SHORTEST_S, 1.0) == "passed"


def test_the_warm_up_is_half_of_a_run_and_at_most_an_hour():
    assert warm(line(0.0), 3_000.0)[0] == (1_500.0, 1_000.0)
    assert warm(line(0.0), 36_000.0)[0] == (3_600.0, 1_000.0)


def test_the_worst_of_each_kind_is_judged_and_a_growth_before_the_end_of_the_warm_up_is_none():
    warms_up = [(at, value if at > 1_000 else 1.0) for at, value in line(0.0, seconds=9_000)]
    memory = KINDS[0]
    lines = [
        *judged(
            {
                Series("iad1", 1, memory): warms_up,
                Series("iad2", 2, memory): line(30.0, seconds=9_000),
                Series("iad1-n1", 3, memory): line(0.1, seconds=9_000),
                Series("iad1-n2", 4, memory): warms_up,
            },
            9_000.0,
        )
    ]
    assert [(each.process, each.verdict) for each in lines] == [
        ("master (iad2)", "failed"),
        ("node (iad1-n1)", "passed"),
    ]


def test_all_measurements_are_kept_as_a_table(tmp_path):
    write_samples(
        {Series("iad1", 7, "memory"): [(1.0, 48_128.0), (31.04, 48_132.0)]}, tmp_path / "all.csv"
    )
    assert (tmp_path / "all.csv").read_text().split() == [
        "process,pid,kind,at_s,value",
        "iad1,7,memory,1.0,48128",
        "iad1,7,memory,31.0,48132",
    ]


def test_latencies_are_those_of_complete_answers():
    asked = [Asked(2.0, 2.5, "iad1", ("a",), "complete"), Asked(1.0, 9.0, "iad1", (), "no reply")]
    assert latencies(History(1, asked=asked)) == {Series("iad1", 0, "latency"): [(2.0, 500.0)]}


def test_a_node_and_a_master_are_restarted_in_turn_and_all_others_run_on():
    layout = part_of(building_fleet(), 3, 2)
    planned = restarts(layout, 700.0)
    assert [each.targets[0] for each in planned] == ["iad3-n2", "iad3"] * 3
    assert [each.from_s for each in planned] == [100.0 * n for n in range(1, 7)]


def test_a_host_that_is_deployed_to_is_away_from_its_turn_until_it_is_well():
    steps = [
        Step(1.0, "begun", ""),
        *[Step(2.0, "planned", f"hosted/{name}", disturbs=True) for name in ("n1", "n2", "master")],
        *[Step(5.0 + n, "staged", f"hosted/{name}") for n, name in enumerate(("n1", "n2"))],
        Step(8.0, "switched", "hosted/n1"),
        Step(9.0, "healthy", "hosted/n1"),
        Step(9.5, "confirmed", "hosted/n1"),
        Step(11.0, "switched", "hosted/n2"),
        Step(14.0, "healthy", "hosted/n2"),
        Step(15.0, "switched", "hosted/master"),
        Step(16.0, "failed", "hosted/master"),
        Step(17.0, "rolled_back", "hosted/master"),
    ]
    assert [*away(steps)] == [("n1", 5.0, 9.0), ("n2", 9.0, 14.0), ("master", 14.0, 17.0)]


def test_a_host_that_only_gets_files_is_not_away():
    names = ("begun", "planned", "switched", "healthy", "confirmed")
    steps = [Step(float(n), name, "hosted/master") for n, name in enumerate(names)]
    assert [*away(steps)] == []


def test_hosts_that_are_not_root_s_are_named_as_the_obstacle(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    assert obstacle() == "needs root"


def test_a_run_that_can_have_no_hosts_says_why_and_goes_on(tmp_path, monkeypatch, capfd):
    asked = []

    def soaked(options):
        asked.append(options.hosts)
        return Soaked(History(1), [], [])

    monkeypatch.setattr("lab.soak.run.obstacle", lambda: "needs root")
    monkeypatch.setattr("lab.soak.run.soak", soaked)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    options = Options(tmp_path / "run", 60.0, 3.0, 3, 1, 1, 2)
    assert run(options, tmp_path) == exits.DONE
    assert asked == [0]
    assert "no release is deployed in this run: needs root" in capfd.readouterr().out
    assert "| hosts that are deployed to | 0 |" in (tmp_path / "soak.md").read_text()


def test_no_master_is_restarted_before_masters_have_rotated_their_keys():
    rotated = []
    keyring = SimpleNamespace(
        masters=("iad1",), nodes=("n1",), rotation=lambda names: iter(rotated.append(names) or [])
    )
    rotations = Rotations(SimpleNamespace(keyring=keyring), None, 1.0, 0.01)
    rotations.wait(Fault("restart", ("n1",), 0.0, 1.0))
    assert rotated == []
    with rotations:
        rotations.wait(Fault("restart", ("iad1",), 0.0, 1.0))
        assert rotated[0] == ("iad1", "n1")


def test_what_a_node_told_before_old_records_went_is_known_at_the_end(tmp_path):
    """Of a node that was restarted its start, which is an event and no alert."""
    layout = part_of(building_fleet(emulate=False), 3, 1)
    node = layout.nodes[0].name
    # Three or four files close each second: one is there for some four.
    records = MasterRecords(rotate_bytes=4_096, keep_files=16, flush_s=0.2)
    with Fleet(layout, tmp_path, sensor(0.05), records=records) as fleet:
        [folder] = {fleet.bed.records(iad) for name, iad in fleet.homes.values() if name == node}

        def has_a_start(path):
            with suppress(FileNotFoundError):
                return b"agent_started" in path.read_bytes()
            return True  # it has another name by now

        def wait(fault):
            if fault.kind == "freeze":
                wait_until(lambda: not any(map(has_a_start, folder.glob("*.jsonl"))))

        planned = [Fault("restart", (node,), 1.0, 2.0), Fault("freeze", (node,), 2.5, 2.6)]
        history = live(fleet, 1, planned, 0.0, lambda _: None, wait=wait)
    assert broken(history) == []


def test_an_alert_that_is_in_no_pulled_record_is_lost(tmp_path):
    record = NodeEventRecord(
        iad="iad1", wall_ms=1, start_s=1.0, node="iad1-n1", history="h" * 32, sequence=7,
        kind="trigger_raised", time_ms=1, synchronised=True, sensor="s", channel="c", text="",
        trigger="hot",
    )  # fmt: skip
    segment = tmp_path / "lake/landing/records/iad=iad1/0-1.jsonl"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(msgspec.json.encode(record) + b"\n")
    told = history_of("iad1-n1", "h" * 32)
    alerts = [Alert(1, "a", told, 7), Alert(2, "a", told, 8), Alert(0)]
    lost = [*Pulls(tmp_path, None, 60.0).lost(History(1, alerts=alerts))]
    assert lost == ["alert 8 of a was not pulled"]


@pytest.mark.long
def test_three_minutes_lose_nothing(tmp_path):
    hosts = 0 if obstacle() else 1
    soaked = soak(Options(tmp_path, 105.0, 3.0, 3, 1, 1, hosts))
    assert soaked.broken == []
    # Of a node and its master.
    restarted = [name for each in soaked.history.faults for name in each.targets]
    assert soaked.deployed >= hosts
    assert restarted.count("hosted") == restarted.count("hosted-n1") >= hosts
    assert not [each for each in soaked.lines if each.verdict == "failed"]
    assert {each.kind for each in soaked.lines} == {*KINDS, "latency"}
    assert soaked.streamed > 0
    assert soaked.pulls >= 6
    assert soaked.pulled_records > len(soaked.history.asked)
    history = soaked.history
    assert {each.topic for each in history.clone_outputs} == {e.topic for e in history.clones}
    assert len(history.clones) == 3
    # Those of masters and nodes, then of nodes.
    assert soaked.rotated >= 6 + 3
    assert any(": clone" in each and each.endswith(": begun") for each in history.moves)
