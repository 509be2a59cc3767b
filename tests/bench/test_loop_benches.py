"""The benchmarks of a loop that never waits, and of hostile senders, run and say what they promise.

Real processes, tiny sizes: whether a goal is met is for `make bench` on a quiet machine to say.
"""

import json
import shutil

import pytest

from bench import big_json, file_limit, hostile, slow_disk, too_large
from bench.output import report
from tests.examples import campaign

EVERY_LINE = {"name", "value", "unit", "peer", "ratio"}


def told(capsys, results):
    """What `make bench` prints, by name."""
    report(results)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line.keys() > EVERY_LINE and line["value"] >= 0 for line in lines)
    return {line["name"]: line for line in lines}


def small(monkeypatch, module, **sizes):
    for name, value in sizes.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize(
    "attack",
    [
        "unread",
        *(
            pytest.param(each, marks=campaign(n, 3))
            for n, each in enumerate(hostile.ATTACKS)
            if each != "unread"
        ),
    ],
)
def test_an_attack(monkeypatch, capsys, attack):
    small(monkeypatch, hostile, ROUNDS=1, WARM_UP=3, MEASURED=10, ATTACK_S=1.0, AFTER_S=1.0)
    (line,) = told(capsys, hostile.run(attack)).values()
    assert line["name"] == f"hostile-{attack}"
    assert line["rss_mib"].keys() == {"before", "peak", "after"}
    assert line["percent"].keys() == {"loop", "sockets", "other_threads", "attacker", "nodes"}
    assert line["as_equal"].keys() == {"p99_ms", "sent_mb_s", "percent"}
    assert line["sent_mb_s"] >= 0
    assert {"times", "p99_after_ms", "back_after_s"} < line.keys()


def test_the_limit_of_open_files(monkeypatch, capsys):
    small(monkeypatch, file_limit, FILES=512, CONNECTIONS=300, SETTLING_S=0.1, MEASURED_S=0.2)
    for line in told(capsys, file_limit.run()).values():
        assert 256 < line["files"] < line["limit"] == 512
        assert line["records_lost"] == 0
        assert isinstance(line["goal_met"], bool)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the delay of a disk is compiled: no gcc")
@pytest.mark.long
def test_a_slow_disk(monkeypatch, capsys):
    small(monkeypatch, slow_disk, ROUNDS=1, SETTLING_S=0.6, MEASURING_S=0.4)
    lines = told(capsys, slow_disk.run())
    assert lines.keys() == {"loop-slow-disk-master", "loop-slow-disk"}
    for line in lines.values():
        assert line["queries"] > 0
        assert line["incomplete"] == 0
        assert {"delay_ms", "heartbeat_worst_ms", "late", "node_late"} < line.keys()


@pytest.mark.long
def test_large_answers_in_json(monkeypatch, capsys):
    small(monkeypatch, big_json, ROWS=300, PHASES=1, PHASE_S=0.5)
    (line,) = told(capsys, big_json.run()).values()
    assert line["name"] == "loop-big-json"
    assert line["large_answers"] > 0
    assert line["large_mb"] > 0
    assert {"times", "p50_ms", "p50_alone_ms", "worst_ms", "goal_met"} < line.keys()


@pytest.mark.long
def test_answers_that_are_too_large(monkeypatch, capsys):
    small(monkeypatch, too_large, ASKED=2, PHASES=1, PHASE_S=0.3)
    lines = told(capsys, too_large.run())
    assert lines.keys() == {"too-large", "loop-too-large"}
    assert {"p99_ms", "asked", "master_cpu_ms", "node_cpu_ms"} < lines["too-large"].keys()
    assert lines["loop-too-large"]["refused"] > 0
    assert {"times", "goal_met"} < lines["loop-too-large"].keys()
