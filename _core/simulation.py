"""The discrete-event simulator: what ships, at the speed of C. docs/simulator.md.

Queue, keys and histograms are those of the masters (`_core.edf`, `_core.policy`,
`_core.orderstats`); only the world around them is simulated.
"""

from _core.service_times import ServiceTimes
from _core.simulation_events import simulate_events
from _core.simulation_nodes import simulate_nodes
from _core.simulation_run import Run
from _core.trace import Trace

__all__ = ["Run", "ServiceTimes", "Trace", "simulate_events", "simulate_nodes"]
