"""Runs the same function on many hosts in parallel; errors stay with their host."""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from typing import Final, Generic, NamedTuple, TypeVar

from fleet.common import crash_reports
from fleet.inventory.parties import HostOf
from fleet.ssh.ctrl_c import noted
from fleet.ssh.errors import HostError

T = TypeVar("T")
# A single long wait would block Ctrl-C on some systems.
LOOK_S: Final = 0.5
PARALLEL: Final = 50
WAITING: Final = "interrupted: what is under way comes to its end; again to cut it"


class Outcome(NamedTuple, Generic[T]):
    """Result of the work on one host: a value, or an error."""

    host: HostOf
    value: T | None
    error: HostError | None


class Progress:
    """Progress over many hosts, for a subclass that displays it; this one displays nothing."""

    def begin(self, hosts: int) -> None:
        """Work on this many hosts begins."""

    def started(self, host: HostOf) -> None:
        """Work on `host` has begun; called in its thread."""

    def ended(self, host: HostOf, error: HostError | None) -> None:
        """Work on `host` is over."""

    def waiting(self) -> None:
        """Ctrl-C came, and work in progress has not ended since."""


class Told(Progress):
    """Says only what Ctrl-C waits for."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say

    def waiting(self) -> None:
        """Says so in one line."""
        self._say(WAITING)


def for_each(
    hosts: Iterable[HostOf],
    work: Callable[[HostOf], T],
    *,
    parallel: int = PARALLEL,
    progress: Progress | None = None,
    only_looks: bool = False,
) -> Iterator[Outcome[T]]:
    """The outcome of `work` on each host, in order of completion, in `parallel` threads.

    A HostError is an outcome, and so is any other exception; a dead host occupies one thread for
    its own timeout. Ctrl-C starts no more hosts; those in progress are finished and yielded, then
    KeyboardInterrupt is raised. A second Ctrl-C is raised at once; work in progress is cut off when
    the program ends; so is work that `only_looks`, at the first one.
    """
    waiting = collections.deque(hosts)
    total = len(waiting)
    shown = progress or Progress()
    shown.begin(total)
    done: queue.SimpleQueue[Outcome[T] | None] = queue.SimpleQueue()

    def run() -> None:
        def begin(host: HostOf) -> T:
            shown.started(host)
            return work(host)

        try:
            with suppress(IndexError):  # none is left
                while True:
                    done.put(attempt(waiting.popleft(), begin))
        finally:
            done.put(None)

    # Daemons, so that a second Ctrl-C does not wait for hosts that hang.
    threads = [
        threading.Thread(target=run, name=f"hosts-{number}", daemon=True)
        for number in range(max(1, min(parallel, total)))
    ]
    interrupted = told = False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        waiting.clear()

    # Ctrl-C may also arrive while the caller is handling an outcome.
    with nullcontext() if only_looks else noted(stop):
        for thread in threads:
            thread.start()
        left = len(threads)
        try:
            while left:
                try:
                    outcome = done.get(timeout=LOOK_S)
                except queue.Empty:
                    if interrupted and not told:
                        told = True
                        shown.waiting()
                    continue
                if outcome is None:
                    left -= 1
                    continue
                shown.ended(outcome.host, outcome.error)
                yield outcome
        finally:
            waiting.clear()
    if interrupted:
        raise KeyboardInterrupt


def attempt(host: HostOf, work: Callable[[HostOf], T]) -> Outcome[T]:
    """The outcome of `work` on one host, whatever it raises."""
    try:
        return Outcome(host, work(host), None)
    except HostError as error:
        return Outcome(host, None, error)
    except BaseException as error:  # noqa: BLE001 - a thread that ends early is waited for forever
        return Outcome(host, None, HostError("failed", crash_reports.told(error)))
