"""Discrete-event simulator: the shipped scheduling code in C; see docs/papers/simulator.md.

Queue, keys and histograms are those of the masters (`_core.queue.edf`, `_core.queue.policy`,
`_core.deadlines.order_statistics`); only the world around them is simulated.
"""

from _core.simulator.broker import simulate_broker
from _core.simulator.events import simulate_events
from _core.simulator.nodes import simulate_nodes
from _core.simulator.run import Run
from _core.simulator.service_times import ServiceTimes
from _core.simulator.trace import Trace

__all__ = ["Run", "ServiceTimes", "Trace", "simulate_broker", "simulate_events", "simulate_nodes"]
