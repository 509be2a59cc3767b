"""The load-step experiment: its parameters and both of its runs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from agent.wire.master_config import MasterAutoscale
from lab.autoscale.workload import Step, StepsRun
from lab.provenance import Provenance

COLUMNS: Final = {"real": "Real processes", "virtual": "Virtual time"}
NAME: Final = "autoscaling"


class Experiment(Struct, frozen=True):
    """The parameters and results of the experiment."""

    rates_per_s: tuple[float, ...]
    seconds: float
    nodes: int
    seed: int
    origin: Provenance
    rules: MasterAutoscale
    steps: tuple[Step, ...]
    real: StepsRun
    virtual: StepsRun

    @property
    def runs(self) -> dict[str, StepsRun]:
        """Both runs by name."""
        return {"real": self.real, "virtual": self.virtual}
