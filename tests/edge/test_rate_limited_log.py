"""What is written, and what is left out: counted over months of virtual time. About 20 s."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.edge.rate_limited_log import (
    MAX_LINE,
    MAX_QUIET_S,
    NOTICE,
    QUIET_S,
    SETTLED_S,
    WARNING,
    Reporter,
    cause_of,
)
from tests.examples import examples, share

DAY_S = 86_400
MONTH_S = 30 * DAY_S
FAILURE = (
    "dht22: no reading: no answer on GPIO 4 within 1.2 s after 3 attempts (DHT sensor not found, "
    "check wiring)"
)


class Log:
    """A reporter in virtual time, and what it wrote: (time, line)."""

    def __init__(self, journal=None):
        self.now = 0.0
        self.lines = []
        self.reporter = Reporter(self._write, "room-413", lambda: self.now, journal)

    def _write(self, line):
        self.lines.append((self.now, line))

    @property
    def bytes(self):
        return sum(len(line.encode()) for _, line in self.lines)

    @property
    def times(self):
        return [at for at, _ in self.lines]


def withheld(line):
    """How many lines this one says were left out."""
    return int(line.partition(" (and ")[2].split()[0]) if " (and " in line else 0


@pytest.mark.long
def test_a_month_of_failures_is_kilobytes():
    log = Log()
    for second in range(MONTH_S):
        log.now = second
        log.reporter.complain("sensor", FAILURE, sensor="dht22", cause=FAILURE)
    assert log.bytes < 10_000
    assert log.times[:5] == [0, 60, 180, 420, 900]
    assert max(b - a for a, b in pairwise(log.times)) <= MAX_QUIET_S
    # Every failure up to the last line was written or counted.
    assert sum(1 + withheld(line) for _, line in log.lines) == log.times[-1] + 1


@pytest.mark.long
@pytest.mark.parametrize("period_s", [2, 61, 3_600, 7 * 3_600])
def test_a_month_of_flapping_is_kilobytes(period_s):
    log = Log()
    failures = 0
    for second in range(0, MONTH_S, max(1, period_s // 2)):
        log.now = second
        if second // max(1, period_s // 2) % 2 == 0:
            failures += 1
            log.reporter.complain("sensor", FAILURE, sensor="dht22")
        else:
            log.reporter.recovered("sensor", "dht22: reads again", sensor="dht22")
    assert log.bytes < 50_000
    said = sum(
        withheld(line) + FAILURE.count("dht22") * ("no reading" in line) for _, line in log.lines
    )
    assert 0 <= failures - said < failures / 10 + 10


@pytest.mark.long
def test_no_sequence_of_failures_fills_a_disk():
    """The worst of many random rhythms."""
    rng = random.Random(5)
    for _ in range(share(20)):
        log = Log()
        scale_s = 10 ** rng.uniform(0.5, 4.5)
        while log.now < MONTH_S:
            log.now += rng.expovariate(1 / scale_s)
            rng.choice([log.reporter.complain, log.reporter.recovered])(
                "sensor", FAILURE, sensor="dht22"
            )
        assert log.bytes < 150_000


def test_recovery_is_told_once_and_with_what_was_left_out():
    log = Log()
    for second in range(11):
        log.now = second
        log.reporter.complain("sensor", "a: no reading", sensor="a")
    for _ in range(3):
        log.reporter.recovered("sensor", "a: reads again", sensor="a")
    assert [line for _, line in log.lines] == [
        "sanderling-edge room-413: a: no reading\n",
        "sanderling-edge room-413: a: reads again (and 10 more such lines)\n",
    ]


def test_nothing_recovers_that_was_not_complained_about():
    log = Log()
    log.reporter.recovered("sensor", "a: reads again", sensor="a")
    assert log.lines == []


def test_after_a_while_without_complaints_the_next_is_news():
    log = Log()
    for second in range(0, 20 * DAY_S, 60):
        log.now = second
        log.reporter.complain("sensor", "a: no reading")
    log.reporter.recovered("sensor", "a: reads again")
    log.lines.clear()
    repaired = log.now
    for passed in (SETTLED_S, SETTLED_S + QUIET_S):
        log.now = repaired + passed
        log.reporter.complain("sensor", "a: no reading")
    assert log.times == [repaired + SETTLED_S, repaired + SETTLED_S + QUIET_S]


def test_a_failure_after_a_recovery_is_told_at_once_whatever_was_before():
    log = Log()
    for second in range(0, 20 * DAY_S, 60):
        log.now = second
        log.reporter.complain("sensor", "a: no reading")
    log.reporter.recovered("sensor", "a: reads again")
    log.now += 1
    log.reporter.complain("sensor", "a: no reading")
    assert [at for at, _ in log.lines[-2:]] == [log.now - 1, log.now]
    assert "a: no reading" in log.lines[-1][1]


def test_what_comes_and_goes_is_over_when_it_stays_away():
    log = Log()
    over = []
    for _ in range(6):
        log.reporter.complain("sensor", "a: no reading", sensor="a")
        gone = log.now
        while "reads again" not in log.lines[-1][1]:
            log.reporter.recovered("sensor", "a: reads again", sensor="a")
            log.now += 1
        over.append(log.times[-1] - gone)
    assert over == [0, 60, 120, 240, 480, 960]
    log.now += SETTLED_S
    log.reporter.complain("sensor", "a: no reading", sensor="a")
    log.reporter.recovered("sensor", "a: reads again", sensor="a")
    assert "reads again" in log.lines[-1][1]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["complain", "recovered"]),
            st.sampled_from(["port is not there", "not UTF-8: '7'", "3 of 5 bytes"]),
            st.floats(0, 2 * DAY_S) | st.floats(0, 100),
        ),
        max_size=60,
    )
)
def test_the_last_word_is_never_that_it_is_well_while_it_is_not(steps):
    log = Log()
    for act, cause, pause in steps:
        log.now += pause
        if act == "complain":
            log.reporter.complain("sensor", f"a: no reading: {cause}", sensor="a", cause=cause)
            assert "no reading" in log.lines[-1][1]
        else:
            log.reporter.recovered("sensor", "a: reads again", sensor="a")


def test_another_cause_is_news():
    log = Log()
    for second in range(100):
        log.now = second
        cause = "no line since the last read" if second < 50 else "port is not there"
        log.reporter.complain("sensor", f"a: no reading: {cause}", sensor="a", cause=cause)
    assert [(at, line.split(": ")[-1]) for at, line in log.lines] == [
        (0, "no line since the last read\n"),
        (50, "port is not there\n"),
    ]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("a: 31.5 s old", "a: . s old"),
        (r"not UTF-8: '21.\xff' here", "not UTF-:  here"),
        ("it isn't there", "it isnt there"),
        ('file "a\'b" of `x`', "file  of "),
    ],
)
def test_a_cause_has_neither_numbers_nor_quotes(line, cause):
    assert cause_of(line) == cause


def test_a_driver_that_says_something_else_each_time_fills_no_disk():
    log = Log()
    rng = random.Random(7)
    for second in range(0, MONTH_S, 10):
        log.now = second
        text = "".join(rng.choices("abcdef", k=8))
        log.reporter.complain("sensor", f"a: no reading: {text}", sensor="a", cause=text)
    assert log.bytes < 10_000
    for _ in range(10_000):
        text = f"{rng.random()} 'x{rng.random()}'"
        log.reporter.complain("sensor", f"a: {text}", sensor="a", cause=text)
    assert len(log.reporter._kinds) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["complain", "recovered"]),
        st.sampled_from(["a", "b"]),
        st.floats(0, 2 * DAY_S),
    ),
    max_size=60,
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_each_sensor_is_told_as_if_it_were_alone(steps):
    together, alone = Log(), {"a": Log(), "b": Log()}
    for act, sensor, pause in steps:
        together.now += pause
        for log in (together, alone[sensor]):
            log.now = together.now
            getattr(log.reporter, act)("sensor", f"{sensor} {act}", sensor=sensor)
    for sensor, log in alone.items():
        assert log.lines == [x for x in together.lines if f": {sensor} " in x[1]]
        # A complaint opens, a recovery closes; nothing recovers twice.
        acts = [line.split()[3] for _, line in log.lines]
        assert acts[:1] in ([], ["complain"])
        assert not any(x == y == "recovered" for x, y in pairwise(acts))


def test_lines_are_single_and_bounded():
    log = Log()
    log.reporter.tell("a\nb\r\n  c" + "x" * 10_000)
    [(_, line)] = log.lines
    assert line.count("\n") == 1
    assert line.startswith("sanderling-edge room-413: a b cx")
    assert len(line) <= MAX_LINE + len("sanderling-edge room-413: \n")
    assert line.endswith(" …\n")


def test_a_closed_standard_error_stops_nobody():
    def closed(_):
        raise BrokenPipeError

    Reporter(closed, "n1", lambda: 0.0).complain("sensor", "a: no reading")


def test_no_complaint_is_lost_between_threads():
    log = Log()
    barrier = threading.Barrier(4)

    def complain():
        barrier.wait()
        for _ in range(2_000):
            log.reporter.complain("history", "not written")

    threads = [threading.Thread(target=complain) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.now = QUIET_S
    log.reporter.complain("history", "not written")
    assert [withheld(line) for _, line in log.lines] == [0, 7_999]


class FakeJournal:
    """Takes entries while it is up."""

    def __init__(self):
        self.entries = []
        self.up = True

    def send(self, message, fields):
        if self.up:
            self.entries.append((message, dict(fields)))
        return self.up


def test_a_journal_gets_fields_and_standard_error_what_it_does_not_take():
    journal = FakeJournal()
    log = Log(journal)
    log.reporter.complain("sensor", "a: no reading", sensor="a")
    log.reporter.recovered("sensor", "a: reads again", sensor="a")
    assert log.lines == []
    fields = {
        "SANDERLING_NODE": "room-413",
        "SANDERLING_KIND": "sensor",
        "SANDERLING_SENSOR": "a",
    }
    assert journal.entries == [
        ("a: no reading", {"PRIORITY": str(WARNING), **fields}),
        ("a: reads again", {"PRIORITY": str(NOTICE), **fields}),
    ]
    journal.up = False
    log.reporter.tell("stopping")
    assert [line for _, line in log.lines] == ["sanderling-edge room-413: stopping\n"]
