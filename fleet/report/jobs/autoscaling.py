"""Replays recorded subtasks through the auto-scaler; plain Python, one node at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from agent.scheduling.tasks.autoscale import BUCKETS, Autoscaler, Looked, NodeLoad, SubtaskFinished
from agent.wire.master_config import MasterAutoscale, MasterPods

CONFIG: Final = MasterAutoscale(enabled=True)
MAX_PODS: Final = MasterPods().most
LOOK_S: Final = CONFIG.window_s / BUCKETS
# Without a subtask for so long, a node that has one pod keeps it until the next one comes.
IDLE_LOOKS: Final = math.ceil((CONFIG.window_s + CONFIG.cool_down_s) / LOOK_S) + 1


class HourOfPods(NamedTuple):
    """Of the subtasks received in one hour (seconds since 1970): how often a pod was taken away,
    how often some were added, and the most that there were."""

    hour_s: int
    down: int
    up: int
    most: int


class Replay:
    """One node's auto-scaler with its defaults, from one pod on, fed in the order of time.

    It looks at every multiple of `LOOK_S` at what came before. What it decides changes the number
    of pods at once, and nothing else: recorded queues and violations are those of the pods that the
    node really had. A decision counts in the hour of the subtask that came before it.
    """

    def __init__(self) -> None:
        self._scaler = Autoscaler(CONFIG, MAX_PODS)
        self._pods = 1
        self._queued = 0
        self._look: int | None = None
        self._quiet = 0  # looks since a subtask or a change
        self._hour_s: int | None = None
        self._down = self._up = 0
        self._most = 1

    def queue(self, at_s: float, change: int) -> None:
        """So many more subtasks wait."""
        self._look_until(at_s)
        self._quiet = 0
        self._queued += change

    def finished(self, at_s: float, hour_s: int, event: SubtaskFinished) -> Iterator[HourOfPods]:
        """A subtask, received in the hour that began at `hour_s`, finished: the hour before, if
        this is another. O(looks since the last event), which are few however long that is ago."""
        self._look_until(at_s)
        self._quiet = 0
        if self._hour_s != hour_s:
            yield from self.ended()
            self._hour_s, self._down, self._up, self._most = hour_s, 0, 0, self._pods
        self._scaler.handle(event, at_s)

    def ended(self) -> Iterator[HourOfPods]:
        """The last hour."""
        if self._hour_s is not None:
            yield HourOfPods(self._hour_s, self._down, self._up, self._most)

    def _look_until(self, at_s: float) -> None:
        last = math.floor(at_s / LOOK_S)
        if self._look is None:
            self._look = last
        while self._look <= last:
            if self._quiet > IDLE_LOOKS and self._pods == 1 and self._queued == 0:
                # Nothing is in its window any more and nothing can change.
                self._look = last + 1
                return
            self._look_at(self._look)
            self._look += 1

    def _look_at(self, look: int) -> None:
        load = NodeLoad("", self._pods, 1, self._queued)
        self._quiet += 1
        for scale in self._scaler.handle(Looked((load,)), look * LOOK_S):
            self._quiet = 0
            if scale.count > self._pods:
                self._up += 1
            else:
                self._down += 1
            self._pods = scale.count
            self._most = max(self._most, self._pods)
