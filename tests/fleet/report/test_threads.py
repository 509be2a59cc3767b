"""Threads for the small jobs of a report."""

import threading

import pytest

from fleet.report.threads import MAX_THREADS, threads


def test_results_come_in_order_and_jobs_run_beside_one_another():
    with threads() as executor:
        begun = [executor.submit(pow, 2, n) for n in range(50)]
        assert [each.result() for each in begun] == [2**n for n in range(50)]


def test_after_an_error_what_was_not_begun_is_left_out():
    cancelled, begun = threading.Event(), []

    def work(number: int) -> None:
        begun.append(number)
        assert cancelled.wait(60)

    waiting = []

    def fails() -> None:
        with threads() as executor:
            waiting.extend(executor.submit(work, number) for number in range(100))
            waiting[-1].add_done_callback(lambda _: cancelled.set())
            raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        fails()
    assert waiting[-1].cancelled()
    assert len(begun) <= MAX_THREADS
