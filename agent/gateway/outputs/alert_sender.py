"""Sends alerts to a receiver that takes them one by one, or some together: ntfy, e-mail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.gateway.feed.alert_log import Logged
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.base import AlertReader, Health, OutputState, Sources
from agent.gateway.outputs.worker import Worker, WorkerOutput
from agent.runtime.retrying import Answered

# One attempt to send these; it blocks, and raises nothing.
Attempt = Callable[[Sequence[Logged]], Answered]


class AlertSender(WorkerOutput):
    """`line` says what to send and when, at most one message in `every_s`; `clock` is monotonic
    seconds."""

    def __init__(
        self,
        kind: str,
        name: str,
        sources: Sources,
        line: AlertLine[Logged],
        attempt: Attempt,
        clock: Callable[[], float],
        every_s: float = 0.0,
    ) -> None:
        self._kind = kind
        self._name = name
        self._sources = sources
        self._line = line
        self._attempt = attempt
        self._clock = clock
        self._every_s = every_s
        self._not_before_s = 0.0
        self._tried = False
        self._cursor = line.cursor
        self._not_kept = self._left_out = ""
        self._reader = AlertReader(sources.alerts, lambda line: sources.say(f"{name}: {line}"))
        self._worker = Worker(name, sources, self._run, clock, rooms=False, alerts=True)

    @property
    def kind(self) -> str:
        """Such as ``ntfy``."""
        return self._kind

    @property
    def name(self) -> str:
        """Its name, and that of its cursor."""
        return self._name

    def state(self) -> OutputState:
        """How it is doing now."""
        line = self._line
        wrong = self._reader.error or self._not_kept
        health: Health = "up" if line.retrying.up and not wrong else "down"
        if self._worker.stopping or self._worker.ended or line.is_gone:
            health = "stopped"
        elif not self._tried:
            health = "starting"
        error = self._worker.ended or line.last_error or wrong or self._left_out
        return OutputState(
            self.kind, self.name, health, line.waiting, line.delivered, line.failed, error
        )

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._worker.stopping:
            due_s = self._line.due_s
            wait_s = None if due_s is None else max(due_s, self._not_before_s) - self._clock()
            if self._worker.wait(wait_s).log_grew or self._reader.error:
                self._line.grew()
            self.turn()

    def turn(self) -> None:
        """Read what came, and send what is due."""
        while wanted := self._line.to_read():
            self._line.read(self._reader.read(*wanted))
        self._keep_cursor()
        if self._clock() < self._not_before_s or not (due := self._line.next(self._clock())):
            return
        answered = self._attempt(due)
        self._tried = True
        self._not_before_s = self._clock() + self._every_s
        if answered.left_out and answered.left_out != self._left_out:
            self._sources.say(f"{self.name}: delivers, but {answered.left_out}\n")
        self._left_out = answered.left_out
        for each in due:
            if said := self._line.answered(each.position, answered, self._clock()):
                self._sources.say(f"{self._name}: {said}\n")
        if len(due) > 1 and answered.refuses:
            self._line.refused_together()
        self._keep_cursor()

    def _keep_cursor(self) -> None:
        """A cursor that stays behind costs repetitions after a restart, and no alert."""
        if self._line.cursor == self._cursor:
            return
        try:
            self._sources.alerts.move_cursor(self.name, self._line.cursor)
        except OSError as error:
            if not self._not_kept:
                self._sources.say(f"{self._name}: its place in the log is not kept: {error}\n")
            self._not_kept = f"its place in the log is not kept: {error}"
        else:
            self._cursor, self._not_kept = self._line.cursor, ""
