"""Doctor checks of an agent: unit, release, files, link to the master, sensors, topics;
pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fleet.inspect.facts.facts import Facts, Unit
from fleet.inspect.findings import Finding, Severity
from fleet.inspect.seen import HostSeen
from fleet.query.topic_screen import is_healthy

MANY_RESTARTS: Final = 3
MANY_WAITING: Final = 1_000
# Of a node that its master does not know: it never came, or nobody told the master of it.
UNHEARD: Final = "its master has not heard from it yet"
CONFIGURATION: Final = "/etc/sanderling/"
UNREACHABLE: Final = ("dead", "refused", "lost")


def agent_findings(seen: HostSeen) -> Iterator[Finding]:
    """Everything known about a host's agent, even if SSH failed."""
    for check in CHECKS:
        yield from check(seen)


def _finding(
    seen: HostSeen, severity: Severity, check: str, what: str, remedy: str = ""
) -> Finding:
    return Finding(severity, seen.name, check, what, remedy)


def _login(seen: HostSeen) -> Iterator[Finding]:
    if seen.error is None:
        return
    check = "unreachable" if seen.error.kind in UNREACHABLE else f"login_{seen.error.kind}"
    what, remedy = str(seen.error), seen.error.remedy
    if seen.node is not None and seen.node.state == "live":
        what += "; the machine is up: its master hears the agent"
        if seen.error.kind == "dead":
            remedy = "correct its address or port, or let SSH through the firewall"
    yield _finding(seen, "error", check, what, remedy)


def _unit(seen: HostSeen) -> Iterator[Finding]:
    unit, deploy = seen.unit, f"`fleet deploy --limit {seen.name}`"
    if unit is None or seen.facts is None:
        return
    if unit.load == "not-found":
        yield _finding(seen, "error", "not_deployed", "it has no agent", deploy)
        return
    if unit.active == "inactive" and unit.result == "success":
        start = f"`fleet exec --sudo --limit {seen.name} -- systemctl start {seen.unit_name}`"
        yield _finding(seen, "error", "stopped", "its agent was stopped", start)
    elif unit.active not in ("active", "activating", "reloading") or unit.sub == "auto-restart":
        what = f"its agent does not run: {unit.active} ({unit.sub}, {unit.result})"
        last = seen.diagnosis.last.get(seen.unit_name) if seen.diagnosis else None
        said = last.text if last else ""
        if said:
            what += f"; it said: {said}"
        remedy = f"{_remedy_of(said) or deploy}; more: `fleet logs tail --limit {seen.name}`"
        yield _finding(seen, "error", "unit", what, remedy)
        yield from _python(seen, seen.facts)
    elif unit.restarts >= MANY_RESTARTS:
        what = f"its agent was started again {unit.restarts} times"
        if said := _complaint(seen):
            what += f"; it said: {said}"
        yield _finding(
            seen, "warning", "restarts", what, f"`fleet logs tail -p err --limit {seen.name}`"
        )
    if unit.enabled == "disabled":
        what = "its agent will not be started at the next boot"
        yield _finding(seen, "warning", "not_enabled", what, deploy)
    if not seen.facts.user:
        yield _finding(seen, "error", "no_user", "there is no user sanderling", deploy)


def _python(seen: HostSeen, facts: Facts) -> Iterator[Finding]:
    made_for = facts.releases.python
    if made_for and made_for != facts.python:
        what = f"the release is for Python {made_for}, the host has {facts.python}"
        remedy = f"`fleet deploy --limit {seen.name}` brings one for {facts.python}"
        yield _finding(seen, "error", "python", what, remedy)


def _complaint(seen: HostSeen) -> str:
    """The agent's last warning; empty if there is none, or it was not requested."""
    entries = seen.diagnosis.agent.get(seen.unit_name, ()) if seen.diagnosis else ()
    return entries[-1].text if entries else ""


def _remedy_of(said: str) -> str:
    return "correct fleet.toml, then `fleet deploy`" if ".toml" in said else ""


def _release(seen: HostSeen) -> Iterator[Finding]:
    deploy = f"`fleet deploy --limit {seen.name}`"
    runs = seen.release
    if seen.wanted and runs and runs != seen.wanted:
        what = f"its agent is of release {runs}, the inventory wants {seen.wanted}"
        yield _finding(seen, "warning", "release", what, deploy)
    if seen.facts is None:
        return
    current = seen.facts.releases.current
    if runs and current and runs != current:
        what = f"release {current} is in place, but the agent still runs {runs}"
        yield _finding(seen, "warning", "not_restarted", what, deploy)
    if (pending := seen.facts.pending) is not None and (pending.seconds_left or 0.0) <= 0:
        what = f"the deployment of {pending.release} was neither confirmed nor rolled back"
        yield _finding(seen, "warning", "pending", what, f"{deploy}, or `fleet rollback`")


def _files(seen: HostSeen) -> Iterator[Finding]:
    if seen.facts is None or seen.unit is None or seen.unit.load == "not-found":
        return
    there = seen.facts.files
    other = [
        path
        for path, digest in seen.files.items()
        if (found := there.get(CONFIGURATION + path)) is None or found.sha256 != digest
    ]
    if other:
        what = f"not as the inventory and the keys have it: {', '.join(other)}"
        remedy = f"`fleet deploy --limit {seen.name}`; see it first with --dry"
        severity: Severity = "error" if any("key" in path for path in other) else "warning"
        yield _finding(seen, severity, "files", what, remedy)


def _joined(seen: HostSeen) -> Iterator[Finding]:
    if seen.host.node is None or seen.iad is None or seen.iad.status is None:
        return
    state = seen.node.state if seen.node else UNHEARD
    if state == "live":
        return
    unit = seen.unit
    if seen.error is not None:
        yield _finding(seen, "error", "not_live", _says(state))
    elif unit is None or unit.active == "active":
        yield from _why_not_joined(seen, state, unit)


def _says(state: str) -> str:
    return state if state == UNHEARD else f"its master says: {state}"


def _why_not_joined(seen: HostSeen, state: str, unit: Unit | None) -> Iterator[Finding]:
    what, remedy = _says(state), f"`fleet logs tail --limit {seen.name}`"
    if unit is not None:
        what += ", though its agent runs"
    entries = seen.diagnosis.agent.get(seen.unit_name, ()) if seen.diagnosis else ()
    rejected = [entry.text for entry in entries if entry.kind == "rejected"]
    connects = seen.diagnosis.connects if seen.diagnosis else ()
    if rejected:
        what += f"; {rejected[-1]}"
        remedy = "if two machines have this name: flash one of them for another node"
        yield _finding(seen, "error", "rejected", what, remedy)
    elif broken := [each for each in connects if each.error]:
        master = f"{broken[0].host}, port {broken[0].port}"
        what += f"; from there the master is not reached ({master}: {broken[0].error})"
        remedy = f"let the host reach {master}: firewall, route, `master.nodes_address`"
        yield _finding(seen, "error", "master_unreachable", what, remedy)
    elif connects:
        what += " and reaches the master's port"
        remedy = (
            "one of the two does not know the other's key: "
            f"`fleet deploy --limit '{seen.name},{seen.host.iad.name}/master'`"
        )
        yield _finding(seen, "error", "not_allowed", what, remedy)
    else:
        yield _finding(seen, "error", "not_live", what, remedy)


def _reaches(seen: HostSeen) -> Iterator[Finding]:
    """Ports that a host cannot reach although its master sees it: for instance another master's."""
    if seen.diagnosis is None or (seen.host.node is not None and not _is_live(seen)):
        return
    for each in seen.diagnosis.connects:
        if each.error:
            what = f"from there {each.host}, port {each.port}, is not reached: {each.error}"
            yield _finding(seen, "warning", "master_unreachable", what, "firewall, route, address")


def _is_live(seen: HostSeen) -> bool:
    return seen.node is not None and seen.node.state == "live"


def _sensors(seen: HostSeen) -> Iterator[Finding]:
    if seen.node is None:
        return
    for fault in seen.node.faults:
        said = f": {fault.text}" if fault.text else ""
        what = f"sensor {fault.sensor}, {fault.channel}{said}"
        remedy = f"wiring and power of the sensor; `fleet logs tail --limit {seen.name}`"
        yield _finding(seen, "warning", "sensor", what, remedy)
    for alert in seen.node.alerts:
        what = f"trigger {alert.trigger} is raised: {alert.text}"
        yield _finding(seen, "note", "alert", what)
    if seen.node.events_dropped:
        what = f"{seen.node.events_dropped} of its events were given up for want of room"
        yield _finding(seen, "note", "events_dropped", what)
    if seen.node.events_waiting >= MANY_WAITING:
        what = f"{seen.node.events_waiting} of its events wait for the master"
        remedy = "none if it was away for long; `events.backlog_per_s` says how fast they come"
        yield _finding(seen, "note", "backlog", what, remedy)


def _topics(seen: HostSeen) -> Iterator[Finding]:
    if seen.host.node is not None or seen.iad is None or seen.iad.status is None:
        return
    for status in seen.iad.status.topics:
        if not is_healthy(status):
            state = status.state.replace("_", " ")
            what = f"topic {status.topic.name}: {status.trouble or f'its processor is {state}'}"
            remedy = f"`fleet topic show {status.topic.name} --iad {seen.host.iad.name}`"
            yield _finding(seen, "warning", "topic", what, remedy)


CHECKS: Final[tuple[Callable[[HostSeen], Iterator[Finding]], ...]] = (
    _login,
    _unit,
    _release,
    _files,
    _joined,
    _reaches,
    _sensors,
    _topics,
)
