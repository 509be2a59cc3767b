"""Replays recorded subtasks through the auto-scaler; plain Python, one node at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from agent.scheduling.tasks.autoscale import BUCKETS, Autoscaler, Looked, NodeLoad, SubtaskFinished
from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.master_config import MasterAutoscale
from agent.wire.pods_config import MasterPods

CONFIG: Final = MasterAutoscale(enabled=True)
MAX_PODS: Final = MasterPods().most
LOOK_S: Final = CONFIG.window_s / BUCKETS
# A node with one pod keeps it after this long without a subtask, so no further checks are needed.
IDLE_LOOKS: Final = math.ceil((CONFIG.window_s + CONFIG.cool_down_s) / LOOK_S) + 1

# Nobody waits longer for an answer, so of a longer time without an event the end is enough. A
# master may say that a subtask waited for any time.
MOST_LOOKS: Final = IDLE_LOOKS + math.ceil(MAX_TIMEOUT_MS / 1e3 / LOOK_S)


class HourOfPods(NamedTuple):
    """For subtasks received within one hour (seconds since 1970): how often a pod was removed, how
    often pods were added, and the maximum number of pods."""

    hour_s: int
    down: int
    up: int
    most: int


class Replay:
    """One node's auto-scaler with its defaults, starting with one pod, fed in order of time.

    At every multiple of `LOOK_S` it evaluates the events before. A decision changes the number of
    pods at once, and nothing else: recorded queues and violations are those of the pods that the
    node really had. A decision counts in the hour of the preceding subtask.
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
        """This many more subtasks wait."""
        self._look_until(at_s)
        self._quiet = 0
        self._queued += change

    def finished(self, at_s: float, hour_s: int, event: SubtaskFinished) -> Iterator[HourOfPods]:
        """A subtask received in the hour that began at `hour_s` finished; returns the previous hour
        if this is a new one. O(evaluations since the last event), which are few however long ago
        that was."""
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
        self._look = max(self._look, last - MOST_LOOKS)
        while self._look <= last:
            if self._quiet > IDLE_LOOKS and self._pods == 1 and self._queued == 0:
                # Its window is empty, so nothing can change.
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
