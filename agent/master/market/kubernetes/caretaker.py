"""Reconciliation loop for Deployments, in a thread of its own because the client blocks.

Each pass lists all Deployments of the IAD and does what is missing, whatever happened before. This
handles changes, restarts of either side, lost answers and changes by others. The desired state is
one table, so of several changes during a pass the last one counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Final, NamedTuple, Protocol

from agent.master.market.kubernetes.cluster import MAX_MESSAGE, Refused, TryAgain, Unreachable
from agent.master.market.kubernetes.deployments import (
    Blueprint,
    Create,
    Delete,
    Observed,
    Operation,
    Replace,
    Scale,
    operations,
)
from agent.runtime.back_off import BackOff
from agent.runtime.printable import one_line

FIRST_PAUSE_S: Final = 0.5  # after a failure; doubles
MAX_PAUSE_S: Final = 60.0
SETTLING_S: Final = 2.0  # between passes while pods start or end
RESYNC_S: Final = 30.0  # between looks while nothing happens
STOPPING_S: Final = 0.5  # for a request under way, when the master stops; pods stay as they are

DOING: Final = {Create: "create", Replace: "replace", Scale: "scale", Delete: "delete"}


class ClusterView(Protocol):
    """The part of `cluster.Cluster` that the reconciler uses."""

    def deployments(self) -> list[Observed]:
        """All Deployments of this IAD."""

    def perform(self, operation: Operation) -> None:
        """Carry out one operation."""


class Look(NamedTuple):
    """The result of a pass. `ready` is pods by node; None: the cluster did not answer.

    `refused` and `failed` have one line each for the operator; `settled`: all pods are as desired.
    """

    ready: dict[str, int] | None
    refused: tuple[str, ...]
    failed: tuple[str, ...]
    settled: bool


def look_after(wanted: Mapping[str, int], cluster: ClusterView, blueprint: Blueprint) -> Look:
    """One pass: list, then do what is missing."""
    refused: list[str] = []
    failed: list[str] = []
    try:
        observed = cluster.deployments()
    except Refused as error:
        return Look(None, (f"cannot list Deployments: {error}",), (), settled=False)
    except (TryAgain, Unreachable) as error:
        return Look(None, (), (f"cannot list Deployments: {error}",), settled=False)
    needed = operations(wanted, observed, blueprint)
    for operation in needed:
        line = (
            f"cannot {DOING[type(operation)]} the Deployment of {operation.node or operation.name}"
        )
        try:
            cluster.perform(operation)
        except Refused as error:
            refused.append(f"{line}: {error}")
        except TryAgain as error:
            failed.append(f"{line}: {error}")
        except Unreachable as error:
            failed.append(f"{line}: {error}")
            break
    ready = {d.node: d.ready for d in observed if d.name == blueprint.name(d.node)}
    settled = not needed and all(ready.get(node, 0) == n for node, n in wanted.items())
    return Look(ready, tuple(refused), tuple(failed), settled)


class Pace:
    """The pause after each pass: doubling while passes fail."""

    def __init__(self) -> None:
        self._pauses = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)

    def after(self, look: Look) -> float:
        """Seconds until the next pass, unless the desired state changes before."""
        if look.failed:
            return self._pauses.next()
        self._pauses.reset()
        # What was refused will be again: that is worth no hurry.
        return RESYNC_S if look.settled or look.refused else SETTLING_S


class Caretaker:
    """The thread. `fileno` becomes readable when `looks` has something new."""

    def __init__(self, blueprint: Blueprint, open_cluster: Callable[[], ClusterView]) -> None:
        self._blueprint = blueprint
        self._open_cluster = open_cluster
        self._looks: SimpleQueue[Look] = SimpleQueue()
        self.fileno, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._changed = threading.Condition()
        self._wanted: dict[str, int] = {}
        self._seen = self._wanted  # of the last pass
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)

    def start(self) -> None:
        """Start the passes; call `want` before, or the Deployments of an earlier master are
        deleted."""
        self._thread.start()

    def want(self, wanted: Mapping[str, int]) -> None:
        """Set the desired pods by node; all others are deleted."""
        with self._changed:
            self._wanted = dict(wanted)
            self._changed.notify()

    def looks(self) -> list[Look]:
        """Results of the passes since the last call, oldest first."""
        with suppress(BlockingIOError):
            os.read(self.fileno, 4096)
        return [self._looks.get_nowait() for _ in range(self._looks.qsize())]

    def stop(self) -> None:
        """Stop. A request in progress may outlast this call's time-out: the process ends without
        it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(STOPPING_S)
        if not self._thread.is_alive():
            os.close(self.fileno)
            os.close(self._waker)

    def _run(self) -> None:
        cluster: ClusterView | None = None
        pace = Pace()
        while True:
            with self._changed:
                if self._stopping:
                    return
                wanted = self._seen = self._wanted
            try:
                cluster = cluster or self._open_cluster()
                look = look_after(wanted, cluster, self._blueprint)
            except Exception as error:  # noqa: BLE001 - whatever it is, the master lives and is told
                line = one_line(f"{type(error).__name__}: {error}", MAX_MESSAGE)
                look = Look(None, (), (line,), settled=False)
            self._looks.put(look)
            with suppress(BlockingIOError):  # already full of wake-up bytes
                os.write(self._waker, b"\0")
            pause_s = pace.after(look)
            with self._changed:
                self._changed.wait_for(self._something_new, pause_s)

    def _something_new(self) -> bool:
        return self._stopping or self._wanted is not self._seen
