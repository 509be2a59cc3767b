"""Computes the changes from a host's facts to its desired state. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inspect.facts.facts import Facts, Unit
from fleet.inventory.files import CONFIGURATION
from fleet.rollout.changes import (
    DISTURBING,
    AnyChange,
    EnableUnit,
    LoadRules,
    LoadUnits,
    MakeUser,
    RemoveFile,
    RemoveRelease,
    RestartUnit,
    StartUnit,
    StoreRelease,
    SwitchRelease,
    VerifyRelease,
    WriteFile,
)
from fleet.rollout.desired import RULES, SYSUSERS, UNIT_FOLDER, Desired, DesiredFile


def changes(facts: Facts, desired: Desired) -> list[AnyChange]:
    """The changes to make, in order; [] if the host is in its desired state."""
    found = list(_changes(facts, desired))
    if facts.pending is not None and not disturbs(found):
        found.append(VerifyRelease(facts.releases.current))
    return [*found, *removals(facts, desired)]


def disturbs(found: list[AnyChange]) -> bool:
    """Whether the changes interrupt the host's service, so that it must be checked afterwards."""
    return any(isinstance(change, DISTURBING) for change in found)


def _changes(facts: Facts, desired: Desired) -> Iterator[AnyChange]:
    if desired.release not in facts.releases.stored:
        yield StoreRelease(desired.release, desired.bundle_bytes)
    written = [change for file in desired.files if (change := _file(facts, file))]
    paths = {change.path for change in written}
    yield from written
    if SYSUSERS in paths or not facts.user:
        yield MakeUser()
    if RULES in paths:
        yield LoadRules()
    unit = facts.units.get(desired.unit, Unit())
    if f"{UNIT_FOLDER}/{desired.unit}" in paths or unit.needs_reload:
        yield LoadUnits()
    switched = facts.releases.current != desired.release
    if switched:
        yield SwitchRelease(facts.releases.current, desired.release)
    if unit.enabled != "enabled":
        yield EnableUnit(desired.unit)
    if unit.active not in {"active", "activating", "reloading"}:
        yield StartUnit(desired.unit)
    elif reason := _restart_reason(unit, desired, switched, written):
        yield RestartUnit(desired.unit, reason)
    yield from _stale(facts, desired)


def _file(facts: Facts, file: DesiredFile) -> WriteFile | None:
    there = facts.files.get(file.path)
    if (
        there is not None
        and there.sha256 == file.sha256
        and there.mode == file.mode
        and there.owner == there.group == file.owner
    ):
        return None
    # A running agent need not notice a new mode or owner.
    restart = file.restart and (there is None or there.sha256 != file.sha256)
    return WriteFile(file.path, file.sha256, file.mode, file.owner, there is None, restart)


def _stale(facts: Facts, desired: Desired) -> Iterator[RemoveFile]:
    """Files in the configuration folder that this unit's deployments wrote and the unit no longer
    needs. Files of another agent on the host stay."""
    wanted = {file.path for file in desired.files}
    for unit, paths in facts.written.items():
        if unit != desired.unit:
            wanted.update(paths)
    for path in facts.written.get(desired.unit, ()):
        if path.startswith(f"{CONFIGURATION}/") and path in facts.files and path not in wanted:
            yield RemoveFile(path)


def _restart_reason(unit: Unit, desired: Desired, switched: bool, written: list[WriteFile]) -> str:
    if switched or (unit.running and unit.running != desired.release):
        return f"runs {unit.running or 'another release'}"
    changed = [change.path.rpartition("/")[2] for change in written if change.restart]
    return f"{', '.join(changed)} changed" if changed else ""


def removals(facts: Facts, desired: Desired) -> list[AnyChange]:
    """The releases to remove: never the new one, the current one, the last other good one, or the
    one that an unconfirmed switch would go back to. `stored` is ordered from the oldest."""
    in_use = facts.releases.current
    kept = [desired.release, in_use, facts.pending.before if facts.pending else ""]
    if in_use == desired.release:  # otherwise the current release becomes the previous one
        kept += [facts.releases.previous, facts.releases.before]
    kept = list(dict.fromkeys(name for name in kept if name))
    for name in reversed(facts.releases.stored):
        if len(kept) < desired.keep and name not in kept:
            kept.append(name)
    return [RemoveRelease(name) for name in facts.releases.stored if name not in kept]
