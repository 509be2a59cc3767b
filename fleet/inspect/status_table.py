"""Terminal output of `fleet status`: a summary, then the hosts, those with faults first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from fleet.inspect.findings import Shared, named, together
from fleet.inspect.rows import CARD, FleetStatus, Health, HostRow, IadRow
from fleet.terminal.output import printable
from fleet.terminal.screen import line, plain_table, show_table
from fleet.terminal.units import counted, size
from fleet.terminal.wrapping import fits, fitted

# Maximum number of hosts shown without --all; those with faults always are.
MAX_ROWS: Final = 40
MAX_FINDINGS: Final = 30
STYLES: Final[dict[Health, str]] = {
    "down": "red",
    "error": "red",
    "warning": "yellow",
    "unknown": "dim",
    "ok": "green",
}
FINDING_STYLES: Final = {"error": "red", "warning": "yellow", "note": "dim"}
DASH: Final = "–"
DAY_S: Final = 86_400


def show(screen: Console, status: FleetStatus, *, everything: bool) -> None:
    """Print it; in a file without trailing blanks."""
    for part in parts(screen, status, everything=everything):
        if isinstance(part, Table):
            show_table(screen, part)
        else:
            line(screen, part)


def group(screen: Console, status: FleetStatus, *, everything: bool) -> RenderableType:
    """The same as one renderable, to be redrawn on a terminal."""
    found = parts(screen, status, everything=everything)
    return Group(*(each for part in found for each in fitted(part, screen)))


def parts(screen: Console, status: FleetStatus, *, everything: bool) -> Iterable[Table | Text]:
    """From top to bottom, for this screen's width."""
    for iad in status.iads:
        yield iad_line(iad)
    yield summary_line(status)
    shown = status.hosts if everything else _chosen(status.hosts)
    choices = [WIDE, NARROW]
    if any(row.rooms for row in shown):
        choices = [_with_rooms(WIDE), _with_rooms(NARROW), NARROW]
    tables = [host_table(shown, columns) for columns in choices]
    yield next((each for each in tables if fits(each, screen)), tables[-1])
    left = len(status.hosts) - len(shown)
    if left:
        yield Text(f"and {left} more that are ok: --all", "dim")
    findings = [each for row in shown for each in row.findings if each.severity != "note"]
    shared = together(findings)
    rooms = {row.host: row.rooms for row in shown if row.rooms}
    for each in shared[:MAX_FINDINGS]:
        yield finding_line(each, rooms)
    left = len(shared) - MAX_FINDINGS
    if left > 0:
        yield Text(f"and {left} more: fleet doctor", "dim")


def iad_line(iad: IadRow) -> Text:
    """One line on an IAD."""
    text = Text(f"{iad.iad}: ", "bold")
    if not iad.answers:
        return text.append(f"its master does not answer: {printable(iad.error)}", "not bold red")
    style = "not bold green" if iad.live == iad.nodes else "not bold yellow"
    text.append(f"{iad.live} of {counted(iad.nodes, 'node')} live", style)
    more = f", policy {iad.policy}"
    if iad.open_queries:
        more += f", open queries {iad.open_queries}"
    if iad.queued:
        more += f", {iad.queued} subtasks queued, most of them of {iad.longest_queue}"
    if iad.unreachable_iads:
        more += f", cannot reach {', '.join(iad.unreachable_iads)}"
    if iad.strangers:
        more += f", not in the inventory: {', '.join(iad.strangers)}"
    return text.append(more, "not bold default")


def summary_line(status: FleetStatus) -> Text:
    """The number of hosts by health, and their releases."""
    text = Text(f"{counted(len(status.hosts), 'host')}: ")
    counts = [f"{count} {health}" for health, count in status.hosts_by_health.items()]
    text.append(", ".join(counts))
    if status.releases:
        releases = ", ".join(f"{name} on {count}" for name, count in status.releases.items())
        text.append(f"; release {releases}")
    return text


def host_table(rows: Sequence[HostRow], columns: Columns) -> Table:
    """A row a host. What can be long is folded, and stands on the left with what is before it."""
    names = list(columns)
    folds = [name for name in names if name in FOLDED]
    left = 1 + names.index(folds[-1])
    table = plain_table(*names, left=left, folds=folds)
    table.padding = (0, 1, 0, 0)
    for row in rows:
        table.add_row(*[cell(row) for cell in columns.values()])
    return table


def _host(row: HostRow) -> str:
    return row.host


def _health(row: HostRow) -> Text:
    return Text(row.health, STYLES[row.health])


def _room(row: HostRow) -> str:
    return ", ".join(row.rooms) or DASH


def _with_rooms(columns: Columns) -> Columns:
    """With what people call the rooms beside the host."""
    return {"host": _host, "room": _room, **columns}


def _any_unit(row: HostRow) -> Text:
    return Text(_unit(row), "" if row.unit in ("active (running)", None) else "red")


def _waiting(row: HostRow) -> str:
    return DASH if row.events_waiting is None else str(row.events_waiting)


def _besides(row: HostRow) -> Text:
    found = [_wrong_unit(row), _sensors(row), _power(row)]
    if row.clock_synchronised is False:
        found.append(Text("clock not set", "yellow"))
    if row.events_waiting:
        found.append(Text(f"{row.events_waiting} events wait"))
    if (life := _life(row)).endswith("%"):
        found.append(Text(f"life {life}"))
    return Text(", ").join([each for each in found if each.plain not in (DASH, "ok")])


def _wrong_unit(row: HostRow) -> Text:
    unit = _unit(row)
    return Text(DASH) if unit == "running" else Text(unit, "red")


def finding_line(shared: Shared, rooms: Mapping[str, Sequence[str]] | None = None) -> Text:
    """The host, its fault and the remedy; `rooms` are the names of each host's."""
    finding, known = shared.finding, rooms or {}
    subjects = [f"{e} ({', '.join(known[e])})" if e in known else e for e in shared.subjects]
    text = Text(f"{finding.severity:<7} ", FINDING_STYLES[finding.severity])
    text.append(f"{named(subjects)}: {printable(finding.what)}", "default")
    if shared.remedy:
        text.append(f" → {printable(shared.remedy)}", "dim")
    return text


def uptime(seconds: float) -> str:
    """``4 m``, ``3 h``, ``12 d``."""
    if seconds < 3_600:
        return f"{seconds / 60:.0f} m"
    return f"{seconds / 3_600:.0f} h" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f} d"


def _chosen(rows: Sequence[HostRow]) -> Sequence[HostRow]:
    troubled = sum(row.health not in ("ok", "unknown") for row in rows)
    return rows[: max(troubled, MAX_ROWS)]


def _release(row: HostRow) -> Text:
    if row.release is None:
        return Text(DASH)
    other = row.wanted not in ("", row.release) or row.current not in (None, row.release)
    return Text(row.release, "yellow" if other else "")


def _state(row: HostRow) -> Text:
    well = row.state in ("live", "answers", None)
    return Text(row.state or DASH, "" if well else "red")


def _celsius(row: HostRow) -> str:
    return DASH if row.celsius is None else f"{row.celsius:.0f}"


def _up(row: HostRow) -> str:
    return DASH if row.uptime_s is None else uptime(row.uptime_s)


def _unit(row: HostRow) -> str:
    if row.unit is None:
        return DASH
    return "running" if row.unit == "active (running)" else row.unit


def _clock(row: HostRow) -> Text:
    if row.clock_synchronised is None:
        return Text(DASH)
    return Text("ok") if row.clock_synchronised else Text("not set", "yellow")


def _sensors(row: HostRow) -> Text:
    if row.faults is None:
        return Text(DASH)
    if not row.faults:
        return Text("ok")
    names = sorted({fault.sensor for fault in row.faults})
    text = printable(names[0]) if len(names) == 1 else str(len(names))
    return Text(f"faults: {text}", "yellow")


def _power(row: HostRow) -> Text:
    if row.power_now is None:
        return Text(DASH)
    if row.power_now:
        return Text(", ".join(row.power_now), "red")
    if row.power_since_boot:
        return Text(f"was: {', '.join(row.power_since_boot)}", "yellow")
    return Text("ok")


def _free(row: HostRow) -> str:
    if row.disk is None:
        return DASH
    return "read-only" if row.disk.read_only else size(row.disk.free_bytes)


def _life(row: HostRow) -> str:
    """The remaining life of the card; SD cards do not report it."""
    if row.disk is None:
        return DASH
    if row.disk.life_used_percent is None:
        return "untold" if row.disk.device.startswith(CARD) else DASH
    return f"{100 - row.disk.life_used_percent} %"


Columns = Mapping[str, Callable[[HostRow], str | Text]]
FOLDED: Final = ("power", "besides")
WIDE: Final[Columns] = {
    "host": _host,
    "health": _health,
    "release": _release,
    "state": _state,
    "unit": _any_unit,
    "clock": _clock,
    "sensors": _sensors,
    "power": _power,
    "waiting": _waiting,
    "free": _free,
    "life": _life,
    "°C": _celsius,
    "up": _up,
}
# For a terminal of 80 columns: what is well is not named.
NARROW: Final[Columns] = {
    "host": _host,
    "health": _health,
    "release": _release,
    "state": _state,
    "besides": _besides,
    "free": _free,
    "°C": _celsius,
    "up": _up,
}
