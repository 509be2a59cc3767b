"""Memory growth of a node over a week, simulated in a minute or two: 604,800 readings of two
channels and 10,080 queries through the real sampler, quality checks, history, retention and pods,
on a clock that the program sets.

As a program it prints its resident KiB after the warm-up, after each day, and at the end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

from agent.edge.clocks import Clocks
from agent.edge.events.faults import Faults
from agent.edge.history.history import History
from agent.edge.node_time import NodeTime
from agent.edge.pods.pods import Pods, ReceivedSubtask
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.colocated import ColocatedChannels
from agent.edge.sampling.sampling import Follower, Sampler
from agent.edge.sampling.sensor import Sensor, open_sensors
from agent.edge.timebase import TimeBase
from agent.wire.edge_config import EdgeSensor
from agent.wire.messages import Window
from agent.wire.node_messages import Subtask
from bench.edge_rig import ROOT, environment, resident_kib
from bench.output import Result, result

START_S = 1_800_000_000
DAY_S = 86_400
WARM_UP_S = DAY_S // 2
QUERY_EVERY_S = 60
RETENTION_S = 3 * DAY_S
# Alternating windows: from memory, across a few groups, three hours.
WINDOWS_S = (60, 600, 10_800)


class SetClocks(Clocks):
    """Clocks that the program sets."""

    now = 0

    def monotonic(self) -> float:
        return 1_000.0 + self.now

    def wall(self) -> float:
        return float(START_S + self.now)

    def synchronised(self) -> bool:
        return True


class Node:
    """The parts of a node that handle readings."""

    def __init__(
        self, folder: str, following: Callable[[Faults, Sensor], Follower] = lambda f, _: f
    ) -> None:
        """Events of the faults are discarded."""
        self.clocks = SetClocks()
        reporter = Reporter(sys.stderr.write, "n1", self.clocks.monotonic)
        self.history = History(
            f"{folder}/history.sqlite",
            "boot",
            group_readings=600,
            commit_s=10.0,
            retention_s=RETENTION_S,
        )
        time = NodeTime(
            self.clocks,
            TimeBase(self.history.reference()),
            self.history.correct,
            lambda *_: None,
            lambda error: reporter.complain("history", str(error)),
        )
        sensors = open_sensors((EdgeSensor(driver="synthetic"),), folder)
        [sensor] = sensors
        names = tuple([channel.name for channel in sensor.channels])
        self.sampler = Sampler(
            sensor,
            self.history.stream(sensor.name, names),
            time,
            reporter,
            ColocatedChannels(sensors).check,
            following(Faults(sensor.name, sensor.channels, lambda _: None), sensor),
        )
        self.finished = threading.Semaphore(0)
        self.pods = Pods(self.history, 1, self.finished.release)
        self.queries = 0

    def run(self, until: int) -> None:
        """Sample and answer queries until `until` seconds after the start."""
        while self.clocks.now < until:
            self.clocks.now += 1
            self.sampler.sample()
            if self.clocks.now % QUERY_EVERY_S == 0:
                self._query()

    def _query(self) -> None:
        self.queries += 1
        window = Window(last_s=WINDOWS_S[self.queries % len(WINDOWS_S)])
        form = "series" if self.queries % 2 else "aggregate"
        subtask = Subtask(self.queries, window, form=form)
        received = ReceivedSubtask(
            subtask, self.clocks.monotonic(), round(self.clocks.wall() * 1000)
        )
        if not self.pods.submit(received):
            self.finished.acquire()
        [done] = self.pods.take()
        assert b"error" not in done.frame[:60]

    def close(self) -> None:
        """Stop the pods, close the file."""
        self.pods.stop()
        self.history.close()


def main() -> None:
    """Run the week."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(folder)
        node.run(WARM_UP_S)
        print(resident_kib("self"), flush=True)
        for day in range(1, 8):
            node.run(WARM_UP_S + day * DAY_S)
            print(resident_kib("self"), flush=True)
        node.close()


def week() -> Result:
    """Growth of resident memory over a week after the first half day, in per cent, against 1 %."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.edge_week"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    kib = [int(line) for line in done.stdout.split()]
    percent = 100 * (kib[-1] - kib[0]) / kib[0]
    return result("edge-week", percent, "% grown", most=1.0, kib=kib)


if __name__ == "__main__":
    main()
