"""Threads that ask: a caller whose queries hang leaves threads to others, and all are served."""

import asyncio
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.http.asking import Askers, BusyError


class Connection:
    def close(self):
        pass


class Held:
    """Jobs that hang until they are let go; `began` are the callers of those under way, by time."""

    def __init__(self):
        self.began = []
        self.let_go = {}
        self._changed = threading.Condition()

    def job(self, caller):
        def hang(_connection):
            go = threading.Event()
            with self._changed:
                self.began.append(caller)
                self.let_go.setdefault(caller, []).append(go)
                self._changed.notify_all()
            go.wait()
            return caller

        return hang

    def until(self, count):
        with self._changed:
            self._changed.wait_for(lambda: len(self.began) >= count)

    def end(self, caller):
        with self._changed:
            self.let_go[caller].pop().set()


class Oracle:
    """Who runs, by the rule itself: one more while a caller has fewer than are free, or none."""

    def __init__(self, most):
        self.most, self.running, self.waiting = most, Counter(), []

    def comes(self, caller):
        self.waiting.append(caller)
        self._begin()

    def goes(self, caller):
        self.running[caller] -= 1
        self._begin()

    def _begin(self):
        for has in range(self.most):  # who has the fewest first, then who came first
            for caller in tuple(self.waiting):
                free = self.most - self.running.total()
                if self.running[caller] == has and free > has:
                    self.waiting.remove(caller)
                    self.running[caller] += 1


@given(st.integers(1, 6), st.data())
def test_who_runs_is_as_the_rule_says_and_all_are_served(most, data):
    callers = data.draw(st.lists(st.sampled_from("abc"), max_size=2 * most))

    async def serve():
        askers, held, oracle = Askers("test", most, Connection), Held(), Oracle(most)
        tasks = []
        for each in callers:
            tasks.append(asyncio.ensure_future(askers.ask(held.job(each), each)))
            await asyncio.sleep(0)
            oracle.comes(each)
            assert +askers._running == +oracle.running
        for done in range(len(callers)):
            at_work = +oracle.running
            assert at_work, "somebody waits, and nobody is at work"
            held.until(done + at_work.total())
            ends = data.draw(st.sampled_from(sorted(at_work)))
            held.end(ends)
            left = [task for task in tasks if not task.done()]
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            oracle.goes(ends)
            assert +askers._running == +oracle.running
        assert [await task for task in tasks] == callers
        assert not askers._running
        askers.close()

    asyncio.run(serve())


def test_two_that_hang_do_not_hold_all_threads():
    async def serve():
        askers, held = Askers("test", 8, Connection), Held()
        hanging = [asyncio.ensure_future(askers.ask(held.job(c), c)) for c in "aaaabbbb"]
        await asyncio.sleep(0)
        assert +askers._running == {"a": 4, "b": 2}
        held.until(6)
        assert await askers.ask(lambda _: "answer", "c") == "answer"
        more = [asyncio.ensure_future(askers.ask(held.job(c), c)) for c in "dddddddd"]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await askers.ask(lambda _: None, "e")
        for task in (*hanging, *more):
            task.cancel()
        while askers._running:
            for caller in tuple(held.let_go):
                if held.let_go[caller]:
                    held.end(caller)
            await asyncio.sleep(0.001)
        askers.close()

    asyncio.run(serve())
