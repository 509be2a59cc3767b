"""Records of the units that a master moves."""

from __future__ import annotations

from msgspec import Struct

from agent.placement.handover.events import Record
from agent.placement.world import Unit


class SaveUnit(Struct, frozen=True):
    """Write the record, in place of the unit's earlier one."""

    record: Record


class ForgetUnit(Struct, frozen=True):
    unit: Unit


UnitChange = SaveUnit | ForgetUnit
