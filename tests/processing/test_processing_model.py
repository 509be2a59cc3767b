"""Whatever happens to workers, processors and messages: state has every message once, in order.

Pretended workers answer, fail, hang, die and write nonsense in any order. The oracle knows the
messages that were taken in and those that were reported as skipped, nothing else.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.processing.events import (
    Arrived,
    Babbled,
    Enable,
    HandOver,
    Load,
    Run,
    TakeCheckpoint,
    WorkerReady,
)
from agent.processing.lifecycle import PROCESSOR_TRANSITIONS
from tests.processing.rig import Rig, body

NAMES = ("a", "b", "c")
LIMITS = {
    "wall_s": 5.0,
    "checkpoint_messages": 4,
    "checkpoint_s": 3.0,
    "failures": 6,
    "waiting": 6,
    "memory_bytes": 20 * 2**20,
}
# One skips a message at its first failure.
ATTEMPTS = {"a": 2, "b": 1, "c": 3}


class Processors(RuleBasedStateMachine):
    # Of a state that comes along with each message.
    small = -1

    def __init__(self):
        super().__init__()
        self.rig = Rig(2, small=self.small)
        self.epoch = 0
        self.next = dict.fromkeys(NAMES, 1)  # the next position that its topic has not sent yet
        self.looked = [0] * 4
        self.skipped: dict[str, set[int]] = {name: set() for name in NAMES}
        self.passed_over: dict[str, set[int]] = {name: set() for name in NAMES}
        self.known: dict[str, list[int]] = {name: [] for name in NAMES}
        self.stopped: set[str] = set()
        for name in NAMES:
            self.rig.create(name, attempts=ATTEMPTS[name], **LIMITS)

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4), again=st.integers(0, 3))
    def messages_arrive(self, name, count, again):
        """A topic sends messages, some of them again; not while it waits for room."""
        for position in range(max(1, self.next[name] - again), self.next[name] + count):
            if name in self.stopped:
                return
            self.send(name, position)
            self.look()
            self.next[name] = max(self.next[name], position + (name not in self.stopped))

    @precondition(lambda self: self.rig.busy())
    @rule(
        data=st.data(),
        what=st.sampled_from(["answer"] * 3 + ["fail", "memory", "grow", "cpu", "nonsense", "die"]),
    )
    def a_worker_answers(self, data, what):
        worker = data.draw(st.sampled_from(self.rig.busy()))
        request = self.rig.requests[worker]
        match what:
            case "answer":
                self.rig.answer(worker)
            case "fail" | "memory":
                self.rig.fail(worker, memory=what == "memory")
            case "die":
                self.rig.die(worker)
            case _ if not isinstance(request, Run):
                self.rig.handle(Babbled(worker))
            case "grow":
                self.rig.answer(worker, grown=8 * 2**20)
            case "cpu":
                self.rig.answer(worker, cpu_s=99.0)
            case "nonsense":
                self.rig.say(worker, [{"a": None}])
        self.look()

    @rule(count=st.integers(1, 12), replaces=st.booleans())
    def all_goes_well_for_a_while(self, count, replaces):
        for _ in range(count):
            if replaces:
                self.rig.replace_the_dead()
                self.look()
            if busy := self.rig.busy():
                self.rig.answer(busy[-1])
                self.look()
        if replaces:
            self.rig.sleep(2.0)
            self.look()

    @precondition(lambda self: self.rig.dying)
    @rule()
    def a_worker_is_gone(self):
        self.rig.die(self.rig.dying[0])
        self.look()

    @precondition(lambda self: self.rig.starting)
    @rule(ready=st.sampled_from([True, True, True, False]))
    def a_worker_starts(self, ready):
        worker = self.rig.starting.pop(0)
        if ready:
            self.rig.handle(WorkerReady(worker))
        else:
            self.rig.die(worker)
        self.look()

    @rule(seconds=st.sampled_from([0.01, 0.06, 0.3, 1.0, 6.0, 70.0]))
    def time_passes(self, seconds):
        self.rig.sleep(seconds)
        self.look()

    @precondition(lambda self: self.rig.processing.next_due is not None)
    @rule()
    def time_passes_until_something_is_due(self):
        self.rig.sleep_until_due()
        self.look()

    @rule(name=st.sampled_from(NAMES))
    def an_operator_enables(self, name):
        self.rig.handle(Enable(name))
        self.look()

    @rule(name=st.sampled_from(NAMES))
    def a_checkpoint_is_asked_for(self, name):
        self.rig.handle(TakeCheckpoint(name))
        self.look()

    @rule(name=st.sampled_from(NAMES))
    def it_is_handed_over_and_comes_back(self, name):
        self.rig.handle(HandOver(name))
        self.look()

    def look(self):
        """Hold what came out against the oracle."""
        rig = self.rig
        while True:  # handing over makes new things come out
            seen = self.looked
            lists = (rig.reports, rig.emitted, rig.held, rig.resumed)
            fresh = [found[n:] for found, n in zip(lists, seen, strict=True)]
            self.looked = [len(found) for found in lists]
            for report in fresh[0]:
                if report.occurrence == "skipped":
                    position = re.match(r"the message at position (\d+)", report.text)
                    self.skipped[report.processor].add(int(position[1]))
            for emit in fresh[1]:
                self.check(emit)
            self.stopped |= {hold.processor for hold in fresh[2]}
            self.stopped -= {resume.processor for resume in fresh[3]}
            if not rig.handed:
                return
            handed = rig.handed.pop()
            name = handed.processor
            assert handed.epoch <= self.epoch
            self.epoch += 1
            self.stopped.discard(name)
            rig.create(
                name,
                checkpoint=handed.checkpoint,
                epoch=self.epoch,
                load=False,
                attempts=ATTEMPTS[name],
                **LIMITS,
            )
            self.passed_over[name] |= {m.position for m in handed.messages if not m.body}
            for message in handed.messages:
                if name not in self.stopped:
                    self.send(name, message.position)
                    self.stopped |= {h.processor for h in rig.held[self.looked[2] :]}
            # What did not fit, its topic sends again.
            taken = [m.position for m in handed.messages][-1:] or [handed.checkpoint.position]
            held = [h.position for h in rig.held[self.looked[2] :] if h.processor == name]
            self.next[name] = held[0] if held else max(taken[0] + 1, self.next[name])

    def send(self, name, position):
        """What a topic sends: of a message that an owner before skipped, nothing but its place."""
        skipped = position in self.passed_over[name]
        self.rig.handle(Arrived(name, position, b"" if skipped else body(position)))

    def check(self, emit):
        name, position = emit.processor, emit.position
        assert not self.known[name] or position > self.known[name][-1], "once, and in order"
        self.known[name].append(position)
        expected = [p for p in range(1, position + 1) if p not in self.skipped[name]]
        assert emit.outputs[0]["seen"] == repr(expected)[-500:]

    @invariant()
    def each_is_in_a_state_that_its_work_agrees_with(self):
        rig = self.rig
        states = {s.processor: s for s in rig.processing.status(rig.now)}
        assert set(states) == set(NAMES)
        running = [name for name, status in states.items() if status.state == "running"]
        runs = [r for r in rig.requests.values() if isinstance(r, Run)]
        assert len(running) <= len(runs) <= 2  # a removed one's run goes on
        for name, status in states.items():
            assert any(status.state in pair for pair in PROCESSOR_TRANSITIONS)
            assert status.waiting <= LIMITS["waiting"] + LIMITS["checkpoint_messages"]
            assert status.failures < LIMITS["failures"] or status.state == "disabled", name

    @invariant()
    def no_idle_worker_while_anybody_could_use_it(self):
        rig = self.rig
        idle = [
            w
            for w, request in rig.requests.items()
            if request is None and w not in rig.starting and w not in rig.dying
        ]
        for status in rig.processing.status(rig.now):
            if status.worker in idle:
                assert status.state != "ready" or not status.waiting
            if idle and status.worker is None:
                assert status.state in ("backing_off", "disabled")

    def teardown(self):
        """When all is well again, everything is processed or was told."""
        rig = self.rig
        for _ in range(50):
            for name in NAMES:
                if name not in self.stopped:
                    self.send(name, self.next[name])
                    self.look()
                    self.next[name] += name not in self.stopped
            rig.sleep(400.0)
            for name in NAMES:
                rig.handle(Enable(name))
            for _ in range(1_000):
                rig.replace_the_dead()
                self.look()
                if not rig.busy():
                    break
                rig.answer(rig.busy()[0])
            else:
                raise AssertionError("the work does not end")
            self.look()
            states = rig.processing.status(rig.now)
            if all(s.state == "ready" and not s.waiting for s in states) and not self.stopped:
                break
        else:
            raise AssertionError(f"not all is processed: {states}, {self.stopped}")
        for name in NAMES:
            emitted, last = set(self.known[name]), self.next[name] - 1
            assert emitted | self.skipped[name] >= set(range(1, last + 1)), name
        assert not any(isinstance(r, Load | Run) for r in rig.requests.values())


class SmallStates(Processors):
    """States are small at first, and outgrow it."""

    small = 8


TestProcessors = Processors.TestCase
TestProcessors.settings = settings(max_examples=40, stateful_step_count=50)
TestSmallStates = SmallStates.TestCase
TestSmallStates.settings = settings(max_examples=40, stateful_step_count=50)


@pytest.mark.long
class TestProcessorsAtLength(Processors.TestCase):
    settings = settings(max_examples=400, stateful_step_count=80)


@pytest.mark.long
class TestSmallStatesAtLength(SmallStates.TestCase):
    settings = settings(max_examples=400, stateful_step_count=80)
