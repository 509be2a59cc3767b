"""The EDF queue against its naive twin; handles, references and cycles, which it does not have."""

import gc
import math
import random
import sys
import weakref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from _core.queue.edf import EdfQueue
from tests.examples import examples
from tests.oracles.edf import NaiveEdfQueue

KEYS = st.one_of(
    st.integers(0, 5).map(float),  # many ties
    st.floats(allow_nan=False),
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, 5e-324]),
)


class QueueAgainstTwin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue: EdfQueue[object] = EdfQueue()
        self.twin = NaiveEdfQueue()
        self.handles: list[tuple[int, int]] = []

    @rule(key=KEYS)
    def push(self, key: float) -> None:
        item = object()
        self.handles.append((self.queue.push(key, item), self.twin.push(key, item)))

    @rule()
    def pop(self) -> None:
        if self.twin:
            assert self.queue.pop() is self.twin.pop()
        else:
            with pytest.raises(IndexError):
                self.queue.pop()

    @precondition(lambda self: self.handles)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        handle, twin = data.draw(st.sampled_from(self.handles))
        if twin in self.twin.entries:
            assert self.queue.remove(handle) is self.twin.remove(twin)
        else:
            with pytest.raises(KeyError):
                self.queue.remove(handle)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), key=KEYS)
    def rekey(self, data: st.DataObject, key: float) -> None:
        handle, twin = data.draw(st.sampled_from(self.handles))
        if twin in self.twin.entries:
            self.queue.rekey(handle, key)
            self.twin.rekey(twin, key)
        else:
            with pytest.raises(KeyError):
                self.queue.rekey(handle, key)

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.twin.clear()

    @invariant()
    def same_head(self) -> None:
        assert len(self.queue) == len(self.twin)
        if self.twin:
            assert self.queue.peek() is self.twin.peek()
            assert self.queue.peek_key() == self.twin.peek_key()


TestQueueAgainstTwin = QueueAgainstTwin.TestCase
TestQueueAgainstTwin.settings = settings(
    max_examples=examples(60), stateful_step_count=60, deadline=None
)


@pytest.mark.parametrize("seed", range(5))
def test_random_operations_on_a_large_queue(seed: int) -> None:
    draw = random.Random(seed)
    queue: EdfQueue[int] = EdfQueue()
    twin = NaiveEdfQueue()
    pairs: list[tuple[int, int]] = []
    for step in range(3_000):
        roll = draw.random()
        key = float(draw.randrange(200))
        if roll < 0.55 or not pairs:
            pairs.append((queue.push(key, step), twin.push(key, step)))
        elif roll < 0.7 and twin:
            assert queue.pop() == twin.pop()
        else:
            handle, known = draw.choice(pairs)
            if known not in twin.entries:
                with pytest.raises(KeyError):
                    queue.remove(handle)
            elif roll < 0.85:
                assert queue.remove(handle) == twin.remove(known)
            else:
                queue.rekey(handle, key)
                twin.rekey(known, key)
    while twin:
        assert queue.pop() == twin.pop()
    assert len(queue) == 0


def test_equal_keys_leave_in_order_of_arrival() -> None:
    queue: EdfQueue[int] = EdfQueue()
    for i in range(1_000):
        queue.push(1.0, i)
    assert [queue.pop() for _ in range(1_000)] == list(range(1_000))


def test_rekeyed_entry_keeps_its_place_among_equals() -> None:
    queue: EdfQueue[str] = EdfQueue()
    first = queue.push(9.0, "first")
    queue.push(1.0, "second")
    queue.rekey(first, 1.0)
    assert [queue.pop(), queue.pop()] == ["first", "second"]


def test_zero_has_one_place_whatever_its_sign() -> None:
    queue: EdfQueue[str] = EdfQueue()
    queue.push(0.0, "first")
    queue.push(-0.0, "second")
    assert queue.pop() == "first"


def test_a_handle_of_a_reused_slot_is_stale() -> None:
    queue: EdfQueue[str] = EdfQueue()
    old = queue.push(1.0, "old")
    queue.pop()
    new = queue.push(1.0, "new")
    assert new != old
    with pytest.raises(KeyError):
        queue.remove(old)
    with pytest.raises(KeyError):
        queue.rekey(old, 2.0)
    assert queue.remove(new) == "new"


def test_clear_makes_handles_stale() -> None:
    queue: EdfQueue[str] = EdfQueue()
    old = queue.push(1.0, "old")
    queue.clear()
    queue.push(1.0, "new")
    with pytest.raises(KeyError):
        queue.remove(old)


@pytest.mark.parametrize("handle", [0, -1, 1, 2**32, 2**64, 2**200])
def test_unknown_handles(handle: int) -> None:
    queue: EdfQueue[str] = EdfQueue()
    queue.push(1.0, "only")
    with pytest.raises(KeyError):
        queue.remove(handle if handle != 2**32 else 7 << 32)
    assert len(queue) == 1


def test_bad_arguments_change_nothing() -> None:
    queue: EdfQueue[object] = EdfQueue()
    handle = queue.push(1.0, "x")
    with pytest.raises(ValueError, match="NaN"):
        queue.push(math.nan, "y")
    with pytest.raises(ValueError, match="NaN"):
        queue.rekey(handle, math.nan)
    with pytest.raises(TypeError):
        queue.remove("handle")  # type: ignore[arg-type]  # that is the test
    assert len(queue) == 1
    assert queue.peek_key() == 1.0


def test_empty_queue() -> None:
    queue: EdfQueue[object] = EdfQueue()
    for call in (queue.pop, queue.peek, queue.peek_key):
        with pytest.raises(IndexError):
            call()


def test_none_is_an_item() -> None:
    queue: EdfQueue[None] = EdfQueue()
    queue.push(1.0, None)
    assert len(queue) == 1
    assert queue.pop() is None


def test_references_are_given_back() -> None:
    item = object()
    before = sys.getrefcount(item)
    queue: EdfQueue[object] = EdfQueue()
    handles = [queue.push(float(i % 7), item) for i in range(100)]
    assert sys.getrefcount(item) == before + 100
    queue.peek()
    for handle in handles[:30]:
        queue.remove(handle)
        queue.remove(queue.push(3.0, item))
    queue.pop()
    assert sys.getrefcount(item) == before + 69
    queue.clear()
    assert sys.getrefcount(item) == before
    for i in range(50):
        queue.push(float(i), item)
    del queue
    assert sys.getrefcount(item) == before


class Member:
    """Something that can be part of a cycle."""

    queue: object = None


def test_a_cycle_through_the_queue_is_collected() -> None:
    queue: EdfQueue[Member] = EdfQueue()
    member = Member()
    member.queue = queue
    queue.push(1.0, member)
    assert member in gc.get_referents(queue)
    gone = weakref.ref(member)
    del queue, member
    gc.collect()
    assert gone() is None


def test_clear_survives_items_that_use_the_queue_when_they_die() -> None:
    queue: EdfQueue[object] = EdfQueue()

    class Returns:
        def __del__(self) -> None:
            queue.push(5.0, "pushed by the dying")
            queue.pop()
            queue.push(6.0, "left by the dying")

    for i in range(20):
        queue.push(float(i), Returns())
    queue.clear()
    gc.collect()
    assert len(queue) == 20
    assert {queue.pop() for _ in range(20)} == {"left by the dying"}
