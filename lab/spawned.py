"""Processes that do an experiment's work, and Ctrl-C, which a terminal sends to all of them."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

INTERRUPT: Final = {signal.SIGINT}


def context() -> SpawnContext:
    """What starts the processes. No fork: threads, of numeric libraries or of a progress bar, do
    not survive it."""
    # Started later, within `held`, it would have interrupts taken again there.
    resource_tracker.ensure_running()
    return multiprocessing.get_context("spawn")


def held() -> AbstractContextManager[None]:
    """An interrupt comes at the end of this block. What starts in it never takes one, not even
    while Python is still starting there, which would print a traceback: its parent ends it."""
    return _masked(signal.SIG_BLOCK)


def taken() -> AbstractContextManager[None]:
    """Interrupts are taken in this block by a process that started while they were held."""
    return _masked(signal.SIG_UNBLOCK)


@contextmanager
def _masked(how: int) -> Iterator[None]:
    before = signal.pthread_sigmask(how, INTERRUPT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def performing(
    work: Callable[[T], R],
    given: Iterable[T],
    jobs: int,
    *,
    chunk: int = 1,
    each_anew: bool = False,
) -> Iterator[Iterator[R]]:
    """The results of all work, in its order, from `jobs` processes, or from a new one for each
    piece. Leaving the block early ends them, whatever they are doing."""
    most = 1 if each_anew else None
    with ProcessPoolExecutor(jobs, mp_context=context(), max_tasks_per_child=most) as pool:
        try:
            with held():
                results = pool.map(work, given, chunksize=chunk)
            yield results
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()
            raise
