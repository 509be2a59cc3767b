"""`fleet logs pull`: collects the logs of masters and nodes into the lake's landing zone."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from fleet.common import exits, locks
from fleet.common.exits import CommandError
from fleet.inventory.files import CONFIGURATION
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import select
from fleet.inventory.targets import until_interrupted
from fleet.lake.pull import landing_files, local
from fleet.lake.pull.bounds import Bounded, Budget, Enough, Interrupted, Share, unwritten
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.dimensions import keep_nodes, keep_pulls
from fleet.lake.pull.host_source import Here, Source, Taker, There
from fleet.lake.pull.outcome import (
    HEADER,
    HostPulled,
    Outcome,
    Pulled,
    cells,
    lines,
    status_of,
    total_of,
)
from fleet.lake.pull.records import RecordsTaker
from fleet.lake.pull.screen import View, shown
from fleet.lake.schema.folder import Lake, chosen
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import for_each
from fleet.terminal import output, screen
from fleet.terminal.installing import require

FILES: Final = {"node": "edge.toml", "master": "master.toml"}
MAX_ROWS: Final = 40
# Of records alone, without a word: as the command does by default.
MAX_BYTES: Final = 2_000_000_000
PARALLEL: Final = 50

Open = Callable[[HostOf], AbstractContextManager[Source]]


class LockedError(CommandError):
    """Another pull into the lake is running."""

    status = exits.NOTHING


class Options(NamedTuple):
    """Selection of data to pull, and the maximum amount."""

    since: datetime | None
    max_bytes: int
    parallel: int
    as_json: bool


class Pull(NamedTuple):
    """One run of the command."""

    name: str
    lake: Lake
    open_source: Open
    options: Options
    now_ms: int

    def taker(self, host: HostOf) -> Taker:
        """The taker for a host's logs. HostError."""
        since = self.options.since
        since_ms = None if since is None else int(since.timestamp() * 1e3)
        if host.node is None:
            return RecordsTaker(self.lake, host.iad.name, since_ms)
        from fleet.lake.pull.history import HistoryTaker

        return HistoryTaker(self.lake, host.iad.name, host.node.name, since_ms, self.now_ms)


def run_local(
    folder: Path,
    lake: Path | None,
    iads: Sequence[str],
    groups: Sequence[str],
    limit: str,
    options: Options,
) -> int:
    """Pull from the folder of a run on this machine; returns the exit status."""
    found = local.run_in(folder)
    hosts = select(found.fleet, iads=iads, groups=groups, limit=limit)
    into = chosen(lake, folder)

    def open_source(host: HostOf) -> AbstractContextManager[Source]:
        return nullcontext(Here(str(found.configs[host.name].absolute())))

    def and_results() -> None:
        local.keep_results(folder, into)

    return _run(into, found.fleet, hosts, open_source, options, and_results)


def run(
    folder: Folder,
    lake: Path | None,
    iads: Sequence[str],
    groups: Sequence[str],
    limit: str,
    options: Options,
) -> int:
    """Pull from the hosts of a fleet; returns the exit status."""
    from fleet.inventory.targets import chosen as chosen_hosts

    fleet, hosts = chosen_hosts(folder, iads, groups, limit)
    into = chosen(lake, folder.root)
    return _run(into, fleet, hosts, _opener(folder, fleet), options, lambda: None)


def records_of_fleet(folder: Folder, lake: Path | None, since: datetime) -> list[str]:
    """Pull what the masters of a fleet recorded since then, without a word; the masters of which
    that failed. OSError, CommandError."""
    from fleet.inventory.loader import load

    fleet = load(folder)
    return _records(chosen(lake, folder.root), fleet, _opener(folder, fleet), since)


def records_of_run(folder: Path, lake: Path | None, since: datetime) -> list[str]:
    """The same of the masters of a run on this machine."""
    found = local.run_in(folder)

    def open_source(host: HostOf) -> AbstractContextManager[Source]:
        return nullcontext(Here(str(found.configs[host.name].absolute())))

    return _records(chosen(lake, folder), found.fleet, open_source, since)


def _records(lake: Lake, fleet: Inventory, open_source: Open, since: datetime) -> list[str]:
    options = Options(since, MAX_BYTES, PARALLEL, as_json=False)
    pulled = _collect(
        lake, fleet, select(fleet, limit="master"), open_source, options, lambda: None
    )
    return [host.host for host in pulled.hosts if not host.is_well]


def _opener(folder: Folder, fleet: Inventory) -> Open:
    from fleet.ssh.connect import open_host

    @contextmanager
    def open_source(host: HostOf) -> Iterator[Source]:
        name = FILES[host.party.role]
        if host.is_local:
            yield Here(str((folder.master(host.iad.name) / name).absolute()))
            return
        with open_host(folder, fleet, host) as connection:
            yield There(connection, f"{CONFIGURATION}/{name}")

    return open_source


def _run(
    lake: Lake,
    fleet: Inventory,
    hosts: Sequence[HostOf],
    open_source: Open,
    options: Options,
    and_then: Callable[[], None],
) -> int:
    try:
        pulled = _collect(lake, fleet, hosts, open_source, options, and_then)
    except OSError as error:
        return exits.fail(str(unwritten(error)), exits.FAILED)
    _show(pulled, as_json=options.as_json)
    status = status_of(pulled.hosts)
    if status == exits.INTERRUPTED:
        return exits.fail("interrupted; run it again: it continues where it stopped", status)
    return status


def _collect(
    lake: Lake,
    fleet: Inventory,
    hosts: Sequence[HostOf],
    open_source: Open,
    options: Options,
    and_then: Callable[[], None],
) -> Pulled:
    """Pull from these hosts into the lake. OSError, LockedError."""
    require("pyarrow", "numpy")
    now = datetime.now(UTC)
    name = f"{now:%Y%m%dT%H%M%SZ}-{uuid4().hex[:8]}"
    pull = Pull(name, lake, open_source, options, int(now.timestamp() * 1e3))
    began_s = time.monotonic()
    with alone(lake):
        landing_files.clear(lake)
        rows = _all(pull, hosts)
        keep_nodes(lake, name, fleet, pull.now_ms)
        keep_pulls(lake, name, rows, pull.now_ms)
        and_then()
    took_s = round(time.monotonic() - began_s, 3)
    time_text = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return Pulled(name, str(lake.root), time_text, tuple(rows), total_of(rows), took_s)


@contextmanager
def alone(lake: Lake) -> Iterator[None]:
    """Context manager: exclude other pulls into the lake. LockedError, OSError."""
    lake.state.mkdir(parents=True, exist_ok=True)
    with locks.alone(lake.state, LockedError(f"another pull into {lake.root} is under way")):
        yield


def _all(pull: Pull, hosts: Sequence[HostOf]) -> list[HostPulled]:
    """The outcomes of all hosts, in their order."""
    budget = Budget(pull.options.max_bytes, len(hosts))
    found: dict[str, HostPulled] = {}
    with shown(len(hosts)) as view, until_interrupted() as stop:

        def work(host: HostOf) -> HostPulled:
            return pull_host(pull, host, budget.share(), stop, view)

        try:
            for outcome in for_each(hosts, work, parallel=pull.options.parallel):
                name = outcome.host.name
                found[name] = outcome.value or _failed(name, outcome.error)
                view.ended(found[name])
        except KeyboardInterrupt:
            pass  # reported through the hosts that are not done
    return [found.get(host.name, HostPulled(host.name, "skipped")) for host in hosts]


def pull_host(
    pull: Pull, host: HostOf, share: Share, stop: threading.Event, view: View
) -> HostPulled:
    """Pull one host; an error becomes part of its row."""
    began_s = time.monotonic()
    outcome: Outcome = "done"
    problem: HostError | None = None
    counts = Counts()
    try:
        taker = pull.taker(host)
        counts = taker.counts
        try:
            outcome = _take(pull, host, taker, Bounded(taker, share, stop, view.landed), share)
        finally:
            taker.close()
    except Interrupted:
        outcome = "interrupted"
    except HostError as error:
        problem = error
    except OSError as error:
        problem = unwritten(error)
    finally:
        share.end()
    row = _failed(host.name, problem) if problem else HostPulled(host.name, outcome)
    seconds = round(time.monotonic() - began_s, 3)
    return msgspec.structs.replace(row, seconds=seconds, **msgspec.structs.asdict(counts))


def _take(pull: Pull, host: HostOf, taker: Taker, bounded: Bounded, share: Share) -> Outcome:
    if share.left <= 0:
        return "bounded"
    try:
        with pull.open_source(host) as source:
            source.run(taker.program, taker.asked(share.left), bounded.take)
        taker.end()
    except Enough:
        return "bounded"
    return "bounded" if taker.more else "done"


def _failed(host: str, error: HostError | None) -> HostPulled:
    if error is None:
        return HostPulled(host, "skipped")
    return HostPulled(host, error.kind, str(error), error.remedy)


def _show(pulled: Pulled, *, as_json: bool) -> None:
    if as_json:
        output.write_json(pulled)
        return
    to = screen.console()
    table = screen.plain_table(*HEADER, left=2)
    rows = sorted(pulled.hosts, key=lambda host: host.is_well)
    for host in rows[:MAX_ROWS]:
        table.add_row(*cells(host))
    screen.show_table(to, table)
    if len(rows) > MAX_ROWS:
        sys.stdout.write(f"and {len(rows) - MAX_ROWS} more that are well\n")
    for text in lines(pulled):
        output.say(text)
