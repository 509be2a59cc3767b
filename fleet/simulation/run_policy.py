"""Simulates one policy on a trace at a load; knows what each policy needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol

import numpy as np

from _core.simulator import Run, ServiceTimes, Trace, simulate_nodes

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int32]]

# The first queries are not counted: they find a fleet without queues.
WARM_UP_SHARE: Final = 0.1


class Drawn(Protocol):
    """A trace whose load is still open."""

    @property
    def budget_s(self) -> Floats:
        """[tasks] x_t."""

    def enqueued_s(self, load_per_s: float) -> Floats:
        """[tasks] When the subtasks of each task are enqueued."""

    def trace(self, load_per_s: float) -> Trace:
        """The trace at a load in queries a second."""


class Scene(Protocol):
    """Input of a run: a trace, the nodes' service times, and x_u of each task."""

    @property
    def draw(self) -> Drawn:
        """The trace."""

    @property
    def services(self) -> Sequence[ServiceTimes]:
        """The kinds of nodes."""

    @property
    def node_service(self) -> Ints:
        """[nodes] Which of them a node is."""

    @property
    def unloaded_s(self) -> Floats:
        """[tasks] x_u."""

    @property
    def seed(self) -> int:
        """Of the service times."""


def run_policy(
    scene: Scene,
    policy: str,
    load_per_s: float,
    *,
    advance_s: Floats | None = None,
    demotion: Literal["never", "node"] = "node",
    record: bool = False,
) -> Run:
    """Run the trace at a load under a policy, node by node: the one place that knows what a policy
    needs. `advance_s`: by how much each task is advanced, where the policy asks."""
    return simulate_nodes(
        scene.draw.trace(load_per_s),
        scene.services,
        scene.node_service.data,
        policy=policy,
        deadline_s=deadline_s(scene, load_per_s).data,
        advance_s=None if advance_s is None else advance_s.data,
        demotion=demotion,
        seed=scene.seed,
        record=record,
    )


def deadline_s(scene: Scene, load_per_s: float) -> Floats:
    """[tasks] t_D."""
    draw = scene.draw
    return draw.enqueued_s(load_per_s) + draw.budget_s - scene.unloaded_s
