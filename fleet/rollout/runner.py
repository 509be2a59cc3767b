"""Executes a rollout's instructions on hosts, records its events in the journal, and pools idle
SSH connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from fleet.rollout.events import AnyEvent, Do, Dropped, Instruction
from fleet.rollout.journal import HostEnded, Journal
from fleet.rollout.rollout import Rollout
from fleet.rollout.session import Session
from fleet.rollout.workers import carry_out

# Idle time after which a connection is closed: steps follow each other within moments, unless a
# host waits for its turn.
MAX_IDLE: Final = 4


class Idle:
    """Sessions that are idle between two steps. Used by several threads."""

    def __init__(self, most: int = MAX_IDLE) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}  # whose step ended last comes last

    @contextmanager
    def used(self, session: Session) -> Iterator[None]:
        """Context manager for one step over the session; its connection stays open."""
        name = session.host.name
        with self._lock:
            self._sessions.pop(name, None)
        try:
            yield
        finally:
            with self._lock:
                self._sessions[name] = session
            self._close(self._most)

    def close(self) -> None:
        """Close all idle sessions; those in use stay open."""
        self._close(0)

    def _close(self, most: int) -> None:
        with self._lock:
            surplus = list(self._sessions)[: max(0, len(self._sessions) - most)]
            # Removed while the lock is held, because its next step may start at once; closed
            # outside, because that takes long.
            closing = [self._sessions.pop(name).let_go() for name in surplus]
        for close in closing:
            close()


# Instructions that a stopped rollout does not start any more.
DROPPABLE: Final = frozenset({"gather", "stage"})


class View(Protocol):
    """Progress display; called from several threads."""

    def begun(self, host: str, do: Do) -> None:
        """Work on a host begins."""

    def uploaded(self, host: str, part: float) -> None:
        """This part of the release has been uploaded."""

    def happened(self, event: AnyEvent, ended: int, total: int) -> None:
        """An event occurred; this many hosts are finished."""


class Acts(Protocol):
    """Operations on a host: each returns its outcome or raises HostError; called from several
    threads."""

    def gather(self, session: Session) -> AnyEvent:
        """Read its facts."""

    def stage(self, session: Session, uploaded: Callable[[float], None]) -> AnyEvent:
        """Put the release on the host; `uploaded` is called with the uploaded fraction."""

    def switch(self, session: Session, run: str) -> AnyEvent:
        """Make the changes."""

    def check(self, session: Session) -> AnyEvent:
        """See whether it is well."""

    def confirm(self, session: Session, run: str) -> AnyEvent:
        """It stays so."""

    def roll_back(self, session: Session, run: str, reason: str) -> AnyEvent:
        """It goes back."""


class Runner:
    """Runs a rollout on hosts until every host is finished."""

    def __init__(
        self,
        rollout: Rollout,
        sessions: Mapping[str, Session],
        acts: Acts,
        journal: Journal,
        view: View,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._rollout = rollout
        self._sessions = sessions
        self._idle = Idle()
        self._acts = acts
        self._journal = journal
        self._view = view
        self._stopping = threading.Event()
        self._begun_s: dict[str, float] = {}
        self._told: set[str] = set()

    def run(self, parallel: int) -> None:
        """Run until all are finished. The first Ctrl-C starts no more steps, the second is raised;
        a host that was switched but not confirmed then undoes the switch by itself."""
        parallel = min(parallel, len(self._sessions))
        try:
            carry_out(self._rollout, self._attempt, self._take, parallel, self._stopping)
        finally:
            self._idle.close()

    def _take(self, event: AnyEvent) -> list[Instruction]:
        self._journal.write(event)
        instructions = self._rollout.handle(event)
        results = self._rollout.results
        for host in results.keys() - self._told:
            self._told.add(host)
            self._journal.write(HostEnded(host, results[host]))
            self.seconds[host] = time.monotonic() - self._begun_s.get(host, time.monotonic())
        self._view.happened(event, len(results), len(self._sessions))
        return instructions

    def _attempt(self, instruction: Instruction) -> AnyEvent:
        do, name, reason = instruction
        if self._stopping.is_set() and do in DROPPABLE:
            return Dropped(name)
        self._begun_s.setdefault(name, time.monotonic())
        self._view.begun(name, do)
        session = self._sessions[name]
        with self._idle.used(session):
            return self._act(session, do, reason)

    def _act(self, session: Session, do: Do, reason: str) -> AnyEvent:
        name = session.host.name
        match do:
            case "gather":
                return self._acts.gather(session)
            case "stage":
                return self._acts.stage(session, lambda part: self._view.uploaded(name, part))
            case "switch":
                return self._acts.switch(session, self._journal.run)
            case "check":
                return self._acts.check(session)
            case "confirm":
                return self._acts.confirm(session, self._journal.run)
            case "roll_back":
                return self._acts.roll_back(session, self._journal.run, reason)
