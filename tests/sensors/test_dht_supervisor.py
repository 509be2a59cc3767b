"""The supervisor under scripted and random events."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sensors.dht.protocol import Failed, Measured, Ready, Unusable
from sensors.dht.supervisor import (
    CPU_WINDOW_S,
    END_S,
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    PROVEN_S,
    READY_S,
    SILENCE_S,
    Begin,
    End,
    Event,
    Exited,
    Heard,
    Instruction,
    InvalidTransition,
    Report,
    Spawn,
    Start,
    State,
    Stop,
    Supervisor,
    Tick,
    Used,
)
from tests.examples import examples

INTERVAL_S, SHARE, AFTER, OFF_S = 2.5, 0.5, 3, 5.0
VALUE = Heard(Measured(1, (20.0, 50.0)))
SILENT = Heard(Failed(False, "not found"))
DAMAGED = Heard(Failed(True, "checksum"))


def new(power_after: int = AFTER) -> Supervisor:
    return Supervisor(
        interval_s=INTERVAL_S, cpu_share=SHARE, power_after=power_after, power_off_s=OFF_S
    )


def running(power_after: int = AFTER) -> Supervisor:
    supervisor = new(power_after)
    assert supervisor.handle(Start(), 0.0) == [Spawn(0.0)]
    assert supervisor.handle(Heard(Ready()), 1.0) == []
    assert supervisor.handle(Tick(), 2.0) == [Begin()]
    return supervisor


def texts(instructions: list[Instruction]) -> list[str]:
    return [each.text for each in instructions if isinstance(each, Report)]


def test_a_reader_that_works_is_left_alone() -> None:
    supervisor = running()
    for second in range(3, 3000):
        assert supervisor.handle(VALUE, second) == []
        assert supervisor.handle(Used(second * SHARE * 0.9), second) == []
        assert supervisor.handle(Tick(), second) == []
    assert supervisor.restarts == 0


def test_a_reader_that_spins_is_ended_and_started_again() -> None:
    supervisor = running()
    assert supervisor.handle(Used(7.0), 2.0) == []  # loading is not counted
    assert supervisor.handle(Used(9.0), 2.0 + CPU_WINDOW_S / 2) == []
    ended = supervisor.handle(Used(7.0 + SHARE * CPU_WINDOW_S + 0.1), 2.0 + CPU_WINDOW_S)
    assert ended[0] == End(hard=False)
    assert "more than 50%" in texts(ended)[0]
    now = 2.0 + CPU_WINDOW_S
    assert supervisor.handle(Tick(), now + END_S - 0.1) == []
    assert supervisor.handle(Tick(), now + END_S) == [End(hard=True)]
    assert supervisor.handle(Exited("was ended by signal 9"), now + 3) == []
    assert supervisor.handle(Tick(), now + 3 + FIRST_PAUSE_S - 0.1) == []
    assert supervisor.handle(Tick(), now + 3 + FIRST_PAUSE_S) == [Spawn(0.0)]
    assert supervisor.restarts == 1


def test_idle_hours_do_not_pay_for_spinning() -> None:
    supervisor = running()
    for now in (3.0, 7200.0):
        assert supervisor.handle(Used(1.0), now) == []
        supervisor.handle(VALUE, now)
    assert supervisor.handle(Used(1.0 + CPU_WINDOW_S), 7200.0 + CPU_WINDOW_S)[0] == End(hard=False)


def test_the_power_is_cut_after_failures_in_a_row() -> None:
    supervisor = running()
    for failure in (SILENT, DAMAGED, VALUE, SILENT, DAMAGED):
        assert supervisor.handle(failure, 3.0) == []
    cut = supervisor.handle(SILENT, 4.0)
    assert cut[0] == End(hard=False)
    assert texts(cut)[0].startswith("not found, 3 times in a row; its power is cut for 5 s")
    supervisor.handle(Exited("ended with status 0"), 4.1)
    assert supervisor.handle(Tick(), 10.0) == [Spawn(OFF_S)]
    # The next reader, ended for something else, leaves the power on.
    supervisor.handle(Exited("ended with status 1"), 11.0)
    assert supervisor.handle(Tick(), 20.0) == [Spawn(0.0)]


def test_without_a_power_pin_failures_are_only_failures() -> None:
    supervisor = running(power_after=0)
    assert not any(supervisor.handle(SILENT, 3.0) for _ in range(1000))


def test_pauses_double_and_begin_anew_after_a_proven_reader() -> None:
    supervisor, now, pauses = new(), 0.0, []
    supervisor.handle(Start(), now)
    for _ in range(12):
        gone_at = now
        supervisor.handle(Exited("ended with status 1"), gone_at)
        while not supervisor.handle(Tick(), now):
            now += 0.5
        pauses.append(now - gone_at)
    doubled = [FIRST_PAUSE_S * 2**n for n in range(12)]
    assert pauses == [min(pause, MAX_PAUSE_S) for pause in doubled]
    supervisor.handle(Exited("ended with status 1"), now + PROVEN_S)
    assert supervisor.handle(Tick(), now + PROVEN_S + FIRST_PAUSE_S) == [Spawn(0.0)]


def test_the_reason_of_an_unusable_sensor_is_kept() -> None:
    supervisor = new()
    supervisor.handle(Start(), 0.0)
    assert supervisor.handle(Heard(Unusable("no pin D4")), 1.0) == []
    assert texts(supervisor.handle(Exited("ended with status 3"), 1.1)) == [
        "no pin D4; it is started again in 1 s"
    ]


@pytest.mark.parametrize(
    ("supervisor", "patience_s"),
    [(new(), READY_S), (running(), 2.0 + INTERVAL_S + OFF_S + SILENCE_S)],
)
def test_silence_ends_a_reader(supervisor: Supervisor, patience_s: float) -> None:
    if supervisor.state is State.NEW:
        supervisor.handle(Start(), 0.0)
    assert supervisor.handle(Tick(), patience_s - 0.1) == []
    assert supervisor.handle(Tick(), patience_s)[0] == End(hard=False)


@pytest.mark.parametrize("supervisor", [new(), running()])
def test_what_is_no_line_ends_a_reader(supervisor: Supervisor) -> None:
    if supervisor.state is State.NEW:
        supervisor.handle(Start(), 0.0)
    assert supervisor.handle(Heard(None), 3.0)[0] == End(hard=False)


def test_what_cannot_happen_raises_with_the_story() -> None:
    with pytest.raises(InvalidTransition, match=r"new Heard at 1\.000"):
        new().handle(VALUE, 1.0)


class World(RuleBasedStateMachine):
    """A process that may do anything at any time, and a driver that looks now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.supervisor = new()
        self.alive = False
        self.used = 0.0
        self.asked_to_end = False
        self.began = False
        self.spawned_at: list[float] = []
        self.gone_at = -MAX_PAUSE_S
        self.closed = False
        self.handle(Start())

    def handle(self, event: Event) -> None:
        for instruction in self.supervisor.handle(event, self.now):
            match instruction:
                case Spawn(power_off_s):
                    assert not self.alive
                    assert not self.closed
                    assert power_off_s in {0.0, OFF_S}
                    if self.spawned_at:
                        assert self.now >= self.gone_at + FIRST_PAUSE_S
                    self.alive, self.asked_to_end, self.began, self.used = True, False, False, 0.0
                    self.spawned_at.append(self.now)
                case Begin():
                    assert self.alive
                    assert not self.began
                    self.began = True
                case End(hard):
                    assert hard == self.asked_to_end or self.closed
                    self.asked_to_end = True
                    if hard:
                        self.exit("was ended by signal 9")
                case Report(text):
                    assert "\n" not in text

    def exit(self, how: str) -> None:
        self.alive = False
        self.gone_at = self.now
        self.handle(Exited(how))

    @rule(seconds=st.one_of(st.floats(0, 5), st.floats(0, 1000)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def tick(self) -> None:
        if not self.closed:
            self.handle(Tick())

    @precondition(lambda self: self.alive)
    @rule(line=st.sampled_from([Ready(), VALUE.line, SILENT.line, DAMAGED.line, None]))
    def hear(self, line: Ready | Measured | Failed | None) -> None:
        self.handle(Heard(line))

    @precondition(lambda self: self.alive)
    @rule(cpu_s=st.floats(0, 50))
    def use(self, cpu_s: float) -> None:
        self.used += cpu_s
        self.handle(Used(self.used))

    @precondition(lambda self: self.alive)
    @rule()
    def die(self) -> None:
        self.exit("ended with status 1")

    @rule()
    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.handle(Stop())
            assert not self.alive or self.asked_to_end

    @invariant()
    def a_reader_is_there_or_comes(self) -> None:
        state = self.supervisor.state
        if self.closed:
            assert state is State.STOPPED
        else:
            assert self.alive == (state is not State.WAITING)
            assert self.supervisor.restarts == len(self.spawned_at) - 1

    def teardown(self) -> None:
        """However it went, with patience and a reader that behaves values come again."""
        if self.closed:
            return
        for _ in range(5):
            match self.supervisor.state:
                case State.WAITING:
                    self.now += MAX_PAUSE_S
                    self.handle(Tick())
                case State.ENDING:
                    self.now += END_S
                    self.handle(Tick())
                case State.STARTING:
                    self.handle(Heard(Ready()))
                case State.READY:
                    self.handle(Tick())
        self.handle(VALUE)
        assert self.supervisor.state is State.RUNNING
        assert self.alive
        assert self.began


World.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=30, deadline=None
)
test_any_world = World.TestCase
