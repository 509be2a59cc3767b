"""The thread that writes to the disk: order, continuations in the loop's thread, failures, the
end."""

import errno
import os
import select
import threading
import weakref
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.disk_writer import DiskWriterThread, InlineDiskWriter
from agent.runtime.reactor import Reactor


@pytest.fixture
def writer():
    writer = DiskWriterThread()
    yield writer
    writer.close()


def await_wake_up(writer):
    assert select.select([writer.fileno], [], [], 20)[0]


def test_the_loop_goes_on_while_a_job_waits_for_the_disk(writer):
    disk, told = threading.Event(), []
    writer.submit(disk.wait, told.append)
    writer.turn()
    assert (told, writer.under_way) == ([], 1)
    disk.set()
    await_wake_up(writer)
    writer.turn()
    assert (told, writer.under_way) == ([True], 0)
    assert not select.select([writer.fileno], [], [], 0)[0], "nothing more wakes the loop"


def test_jobs_run_in_the_thread_and_continuations_in_the_loop(writer):
    told = []
    writer.submit(threading.get_ident, lambda there: told.extend([there, threading.get_ident()]))
    await_wake_up(writer)
    writer.turn()
    there, here = told
    assert here == threading.get_ident() != there


def test_jobs_of_a_nice_thread_leave_processors_to_the_loop():
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, 0)  # of the thread that calls

    told = []
    for nice in (0, 3):
        writer = DiskWriterThread(nice=nice)
        writer.submit(niceness, told.append)
        writer.close()
    assert told == [niceness(), niceness() + 3]


def test_a_service_that_may_not_be_nice_does_its_jobs_all_the_same(monkeypatch):
    def forbidden(_by: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "nice", forbidden)
    told = []
    writer = DiskWriterThread(nice=3)
    writer.submit(lambda: "done", told.append)
    writer.close()
    assert told == ["done"]


def test_what_a_job_held_is_let_go_when_it_has_ended(writer):
    class Held:
        """Whatever a job works on."""

    held = Held()
    gone = weakref.ref(held)
    writer.submit(partial(id, held), lambda _: None)
    del held
    await_wake_up(writer)
    writer.turn()
    assert gone() is None


@given(st.lists(st.integers(0, 3), max_size=30))
def test_any_jobs_run_in_order_and_so_do_continuations_that_submit_more(kinds):
    def run(writer):
        ran, told = [], []

        def submit(name, more):
            def then(result):
                told.append(result)
                for child in range(more):
                    submit((*name, child), 0)

            writer.submit(lambda: ran.append(name) or name, then)

        for number, more in enumerate(kinds):
            submit((number,), more)
        writer.drain()
        return ran, told

    thread = DiskWriterThread()
    ran, told = run(thread)
    thread.close()
    assert ran == told, "continuations come in the order of their jobs"
    first = [name for name in ran if len(name) == 1]
    assert first == [(number,) for number in range(len(kinds))]
    assert sorted(told) == sorted(run(InlineDiskWriter())[1])


def test_what_a_job_raises_is_raised_in_the_loop_and_the_rest_goes_on(writer):
    told = []

    def fail():
        raise ZeroDivisionError

    writer.submit(fail, told.append)
    writer.submit(lambda: "next", told.append)
    with pytest.raises(ZeroDivisionError):
        writer.drain()
    writer.drain()
    assert told == ["next"]


def test_closing_finishes_what_is_under_way():
    writer, told = DiskWriterThread(), []
    writer.submit(lambda: 1, lambda one: writer.submit(lambda: one + 1, told.append))
    writer.close()
    assert told == [2]
    DiskWriterThread().close()  # which never had a job


def test_a_loop_that_listens_hears_of_what_is_done(writer):
    class Stop:
        filenos, requested = (), False

    board, stop = Reactor(lambda: 0.0), Stop()
    board.listen(writer.fileno, writer.turn)
    writer.submit(lambda: True, lambda done: setattr(stop, "requested", done))
    board.serve(stop)
    assert writer.under_way == 0


def test_without_a_thread_all_happens_at_once():
    told = []
    InlineDiskWriter().submit(lambda: "done", told.append)
    assert told == ["done"]


def test_a_close_with_a_limit_finishes_what_it_can_and_waits_for_no_more():
    writer, told, disk = DiskWriterThread(), [], threading.Event()
    writer.submit(lambda: 1, told.append)
    await_wake_up(writer)
    writer.submit(disk.wait, told.append)
    writer.close(0.0)
    assert told == [1]
    # It is at work still: once it has ended, the rest can be closed.
    disk.set()
    writer.close()
    assert told == [1, True]
