"""Cost of ten triggers per reading: the real sampler, checks, history and faults, with and without
them, on a clock that the program sets."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

from agent.edge.events.faults import Faults
from agent.edge.events.trigger_runner import SensorAlerts
from agent.edge.sampling.sensor import Sensor
from agent.triggers.condition import read_condition
from agent.triggers.state import SensorTriggers, Trigger
from bench.edge_week import Node
from bench.output import Result, interleaved, report, result

READINGS = 2_000
ROUNDS = 15
TRIGGERS = 10


def thresholds(n: int) -> Trigger:
    """Thresholds with hysteresis and durations; the synthetic sensor, 21 ± 3 °C over a day, crosses
    some."""
    return Trigger(
        f"t{n}",
        read_condition(f"temperature > {19 + n / 2}"),
        read_condition(f"temperature < {18.5 + n / 2}"),
        for_s=10.0,
        clear_for_s=60.0,
    )


def joined(n: int) -> Trigger:
    """A rate over two minutes, and another channel."""
    return Trigger(
        f"t{n}",
        read_condition(f"rate(temperature) > {20 + n}/min and (humidity > 90 or humidity < 10)"),
        window_s=120.0,
    )


def following(kind: Callable[[int], Trigger]) -> Callable[[Faults, Sensor], SensorAlerts]:
    """A generator of ten triggers of a kind."""

    def made(faults: Faults, sensor: Sensor) -> SensorAlerts:
        names = [channel.name for channel in sensor.channels]
        ten = [kind(n) for n in range(TRIGGERS)]
        states = SensorTriggers(ten, names, sensor.interval_s, 0.0)
        alerts = SensorAlerts(faults, states, lambda *_: True)
        alerts.restore([])
        return alerts

    return made


class Measured:
    """A node that samples; events of its triggers are discarded, as if they were stored."""

    def __init__(self, folder: str, kind: Callable[[int], Trigger] | None) -> None:
        self._node = Node(folder) if kind is None else Node(folder, following(kind))

    def __call__(self) -> float:
        """CPU seconds per reading, because disk time is the same for all."""
        clocks, sample = self._node.clocks, self._node.sampler.sample
        start_s = time.process_time()
        for _ in range(READINGS):
            clocks.now += 1
            sample()
        return (time.process_time() - start_s) / READINGS

    def close(self) -> None:
        """End the node."""
        self._node.close()


def triggers() -> list[Result]:
    """edge-triggers: a reading with ten triggers beside one without."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = (None, thresholds, joined)
        nodes = [Measured(tempfile.mkdtemp(dir=folder), kind) for kind in kinds]
        without, plain, rates = interleaved(ROUNDS, *nodes)
        for node in nodes:
            node.close()
    floor = "without triggers"
    return [
        result("edge-triggers-thresholds", plain, "us", floor, without, least_ratio=0.8),
        result("edge-triggers-rates", rates, "us", floor, without, least_ratio=0.8),
    ]


if __name__ == "__main__":
    report(triggers())
