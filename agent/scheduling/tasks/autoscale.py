"""Auto-scaler: pods per edge node, by the percentage of its subtasks that miss their deadline.

DSSP leaves this as future work; the rules here are this project's, and
docs/understand/autoscaling.md gives the reasons. The observed violations decide whether a node
gains or loses pods. How many it gains, and whether it can do with one fewer, is estimated from the
demand of the same window with the usual approximation of a queue with several servers (Erlang C,
Allen-Cunneen).
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from msgspec import Struct

from agent.wire.master_config import MasterAutoscale
from agent.wire.records import SubtaskRecord

BUCKETS: Final = 10  # of a window
RECENT: Final = 4  # most recent buckets, which show a step of the load before the whole window does
# Chance, at each look, to take a node whose true percentage is at the threshold for one above it.
FALSE_ALARM: Final = 0.002
# A window may be quiet by chance: a node loses a pod only if it could do without it under a demand
# this many standard deviations higher.
CAUTION: Final = 2.0
# A node returns to a number of pods that has failed only after this many windows without a change,
# after GROWTH times as many each further time, and at once if the demand is clearly lower.
PATIENCE: Final = 12.0
GROWTH: Final = 4.0
CLEARLY_LOWER: Final = 0.6


class SubtaskFinished(Struct, frozen=True, gc=False):
    """A subtask returned or timed out. `slack_s` is how long it could wait (t_Q, above 0), `busy_s`
    how long it held a pod; None if it never got one or never came back."""

    node: str
    enqueued_s: float
    slack_s: float
    missed: bool
    busy_s: float | None


def finished(record: SubtaskRecord) -> SubtaskFinished | None:
    """The event for a subtask's record; None if its deadline says nothing about pods: its node was
    down, or no number of pods could have met it."""
    slack_s = (record.deadline_ms - record.enqueued_ms) / 1e3
    if slack_s <= 0.0 or record.outcome == "node_down":
        return None
    busy_s = None
    if record.dispatched_ms is not None and record.result_ms is not None:
        busy_s = (record.result_ms - record.dispatched_ms) / 1e3
    enqueued_s = record.start_s + record.enqueued_ms / 1e3
    return SubtaskFinished(record.node, enqueued_s, slack_s, record.missed_deadline, busy_s)


class NodeLoad(Struct, frozen=True, gc=False):
    """The current load of a live node: its pods, the minimum of its pods, its queue length."""

    node: str
    pods: int
    floor: int
    queued: int


class Looked(Struct, frozen=True, gc=False):
    """All live nodes; others are forgotten. Due at `next_look`."""

    nodes: tuple[NodeLoad, ...]


class ScalePods(Struct, frozen=True, gc=False):
    """The node shall have this many pods, having missed this many deadlines over the window."""

    node: str
    count: int
    missed_percent: float


class Sums(Struct, gc=False):
    """Totals over subtasks: their number, the missed deadlines, their slack; and of those that were
    served, their time in a pod and its square. Seconds, seconds²."""

    bucket: int = 0
    subtasks: int = 0
    missed: int = 0
    slack_s: float = 0.0
    served: int = 0
    busy_s: float = 0.0
    busy2_s2: float = 0.0

    def add(self, other: Sums) -> None:
        """Add other totals."""
        self.subtasks += other.subtasks
        self.missed += other.missed
        self.slack_s += other.slack_s
        self.served += other.served
        self.busy_s += other.busy_s
        self.busy2_s2 += other.busy2_s2

    @property
    def missed_percent(self) -> float:
        """Deadline-violation percentage; 0 if there are no subtasks."""
        return 100.0 * self.missed / self.subtasks if self.subtasks else 0.0


class Window:
    """Totals over the last `window_s` seconds, to the bucket; O(1) per subtask."""

    def __init__(self, window_s: float, now: float) -> None:
        self._bucket_s = window_s / BUCKETS
        self.restart(now)

    def restart(self, now: float) -> None:
        """Forget everything; count from now on."""
        self.since_s = now
        self._buckets: deque[Sums] = deque()

    def add(self, event: SubtaskFinished, now: float) -> None:
        """Count a subtask that finished at `now`."""
        bucket = self._number(now)
        if not self._buckets or self._buckets[-1].bucket != bucket:
            self._buckets.append(Sums(bucket))
            if len(self._buckets) > BUCKETS:
                self._buckets.popleft()
        sums = self._buckets[-1]
        sums.subtasks += 1
        sums.missed += event.missed
        sums.slack_s += event.slack_s
        if event.busy_s is not None:
            sums.served += 1
            sums.busy_s += event.busy_s
            sums.busy2_s2 += event.busy_s**2

    def sums(self, now: float, buckets: int = BUCKETS) -> Sums:
        """Totals over the last `buckets` buckets, including that of `now`."""
        first = self._number(now) - buckets + 1
        total = Sums()
        for sums in self._buckets:
            if sums.bucket >= first:
                total.add(sums)
        return total

    def seconds(self, now: float, buckets: int = BUCKETS) -> float:
        """The length of these buckets so far, in seconds."""
        first = self._number(now) - buckets + 1
        return now - max(self.since_s, first * self._bucket_s)

    def _number(self, now: float) -> int:
        return int(now / self._bucket_s)


class _Node:
    """The auto-scaler's state of a node.

    Subtasks count only once the queue from before the last change is empty: earlier ones say
    nothing about the current pods. `failed` are the demands at which each number of pods was too
    few.
    """

    __slots__ = ("changed_s", "failed", "patience", "pods", "settled", "tried", "window")

    def __init__(self, pods: int, window: Window) -> None:
        self.pods = pods
        self.window = window
        self.changed_s = -math.inf
        self.settled = True
        self.failed: dict[int, float] = {}
        self.patience = PATIENCE
        self.tried = 0  # the number that the last change reduced the pods to; 0 if it added pods

    def too_few(self, pods: int, enough: int, demand: float) -> None:
        """This many pods failed under that demand. All numbers below `enough` count as failed, too,
        because a node that overshoots and comes back at once has changed twice more than
        necessary."""
        if self.tried == pods:
            self.patience *= GROWTH
        for number in range(pods, enough):
            self.failed[number] = min(demand, self.failed.get(number, math.inf))
        self.tried = 0

    def may_try(self, pods: int, demand: float, quiet_windows: float) -> bool:
        """Whether to reduce the pods to this number, given past failures."""
        if demand > CLEARLY_LOWER * self.failed.get(pods, math.inf):
            return quiet_windows >= self.patience
        self.patience = PATIENCE
        return True


class Autoscaler:
    """Decides for each node, at each look, whether it gains or loses pods."""

    def __init__(self, config: MasterAutoscale, most: int) -> None:
        self._config = config
        self._most = most
        self._nodes: dict[str, _Node] = {}
        self.next_look = 0.0

    def violation_percent(self, node: str, now: float) -> float:
        """The node's deadline-violation percentage over the window; 0 for an unknown node."""
        known = self._nodes.get(node)
        return known.window.sums(now).missed_percent if known else 0.0

    def handle(self, event: SubtaskFinished | Looked, now: float) -> list[ScalePods]:
        """Handle one event at monotonic time `now` (seconds); O(1) per subtask, O(buckets + pods)
        per node looked at."""
        if isinstance(event, SubtaskFinished):
            node = self._nodes.get(event.node)
            if node is not None and node.settled and event.enqueued_s >= node.window.since_s:
                node.window.add(event, now)
            return []
        self.next_look = now + self._config.window_s / BUCKETS
        known, self._nodes = self._nodes, {}
        scaled = []
        for load in event.nodes:
            node = known.get(load.node)
            if node is None:
                node = _Node(load.pods, Window(self._config.window_s, now))
            self._nodes[load.node] = node
            self._settle(node, load, now)
            count = self._wanted(node, load, now)
            if count != load.pods:
                node.changed_s = now
                node.settled = False
                missed_percent = node.window.sums(now).missed_percent
                scaled.append(ScalePods(load.node, count, missed_percent))
        return scaled

    def _settle(self, node: _Node, load: NodeLoad, now: float) -> None:
        if load.pods != node.pods:
            node.pods = load.pods
            node.changed_s = now
            node.settled = False
        if not node.settled and (load.queued <= load.pods or self._cooled_down(node, now)):
            node.settled = True
            node.window.restart(now)

    def _cooled_down(self, node: _Node, now: float) -> bool:
        return now - node.changed_s >= self._config.cool_down_s

    def _wanted(self, node: _Node, load: NodeLoad, now: float) -> int:
        """The number of pods the node should have: the same, more, or one fewer."""
        config, window = self._config, node.window
        if not self._cooled_down(node, now):
            return load.pods
        sums = window.sums(now)
        if exceeds(sums.missed, sums.subtasks, config.above_percent / 100.0):
            if load.pods >= self._most:
                return load.pods
            demand = _rising_demand(window, now)
            needed = self._enough(sums, demand + _backlog(window, sums, load.queued, now))
            count = min(max(load.pods + 1, needed), self._most)
            node.too_few(load.pods, count, demand)
            return count
        quiet_windows = (now - window.since_s) / config.window_s
        quiet = sums.missed_percent <= config.hysteresis * config.above_percent
        fewer = load.pods - 1
        if fewer < load.floor or quiet_windows < 1.0 or not quiet or load.queued > fewer:
            return load.pods
        demand = _cautious_demand(window, sums, now)
        if self._enough(sums, demand) > fewer or not node.may_try(fewer, demand, quiet_windows):
            return load.pods
        node.tried = fewer
        return fewer

    def _enough(self, sums: Sums, demand: float) -> int:
        """The fewest pods with which at most `hysteresis` · `above_percent` of subtasks should miss
        their deadline; the maximum if even that is too few. O(pods)."""
        allowed = self._config.hysteresis * self._config.above_percent / 100.0
        if demand <= 0.0:
            return 1
        slack_s = sums.slack_s / sums.subtasks
        mean_s = sums.busy_s / sums.served
        # Allen-Cunneen: waiting times scale with (1 + c²)/2, c² the squared coefficient of
        # variation of the service times.
        scale_s = sums.busy2_s2 / sums.served / mean_s / 2.0
        blocked = 1.0  # Erlang B, starting without pods
        for pods in range(1, self._most):
            blocked = demand * blocked / (pods + demand * blocked)
            if demand < pods:
                waits = blocked / (1.0 - demand / pods * (1.0 - blocked))  # Erlang C
                if waits * math.exp(-(pods - demand) * slack_s / scale_s) <= allowed:
                    return pods
        return self._most


def _rising_demand(window: Window, now: float) -> float:
    """Average number of busy pods (Erlang), over the whole window or at its end, whichever is
    more."""
    demands = [0.0]
    for buckets in (BUCKETS, RECENT):
        part, seconds = window.sums(now, buckets), window.seconds(now, buckets)
        if seconds > 0.0:
            demands.append(part.busy_s / seconds)
    return max(demands)


def _backlog(window: Window, sums: Sums, queued: int, now: float) -> float:
    """Number of pods kept busy by working off the queue within a window; 0 if nothing was
    served."""
    return queued * sums.busy_s / sums.served / window.seconds(now) if sums.served else 0.0


def _cautious_demand(window: Window, sums: Sums, now: float) -> float:
    """Average number of busy pods if this was a quiet window; 0 if nothing arrived."""
    if not sums.served:
        return 0.0
    return sums.busy_s / window.seconds(now) * (1.0 + CAUTION / math.sqrt(sums.served))


def exceeds(missed: int, subtasks: int, share: float) -> bool:
    """Whether `missed` of `subtasks` are too many to be chance if each misses with probability
    `share`: the binomial tail P(X ≥ missed) is below `FALSE_ALARM`. For example, 1 of 20 is no
    evidence against 2 %."""
    if missed <= subtasks * share:
        return False
    term = math.exp(
        math.lgamma(subtasks + 1)
        - math.lgamma(missed + 1)
        - math.lgamma(subtasks - missed + 1)
        + missed * math.log(share)
        + (subtasks - missed) * math.log1p(-share)
    )
    tail = 0.0
    # Beyond the mean, every term is smaller than the one before.
    for k in range(missed, subtasks + 1):
        tail += term
        term *= (subtasks - k) / (k + 1) * share / (1.0 - share)
        if term < tail * 1e-9:
            break
    return tail < FALSE_ALARM
