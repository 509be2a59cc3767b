"""Plays a script on the real history, in a process of its own under the recorder:

    python -m tests.torture.player SEED LENGTH FOLDER [faults] [lie]

Marks: ``b N`` before step N; after it ``d N …`` if it was done, ``x N …`` if the history refused
it, with how many readings of this opening the history acknowledges and has given up, its id, and
the sequence of an event. Between a close and an open stands ``o N``, or ``f N`` if the close
failed.

A lie makes the history, or what is said of it, wrong on purpose: `off` and `normal` take
SQLite's syncs away, `early` acknowledges readings when they are appended.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import deque
from typing import Any

from agent.edge.history.file import HistoryError
from agent.edge.history.history import History, Stream
from agent.runtime.sqlite import NamedConnection
from tests.torture import recording
from tests.torture.recording import Control, mark
from tests.torture.script import (
    STREAMS,
    AddEvent,
    Append,
    Checkpoint,
    Commit,
    Correct,
    Fail,
    Mend,
    Open,
    Remove,
    Script,
    Settings,
    Step,
    script,
)


def opened(path: str, boot: int, settings: Settings) -> History:
    """The history of a script; HistoryError."""
    return History(
        path,
        f"boot{boot}",
        group_readings=settings.group_readings,
        commit_s=settings.commit_s,
        retention_s=settings.retention_s,
        most_events=settings.most_events,
    )


def streams(history: History) -> list[Stream]:
    """The streams of a script."""
    return [history.stream(p.name, p.channels, keeps_raw=p.keeps_raw) for p in STREAMS]


class Player:
    """Carries out the steps one by one."""

    def __init__(self, played: Script, path: str, lie: str) -> None:
        self._script = played
        self._path = path
        self._early = lie == "early"
        self._history: History | None = None
        self._streams: list[Stream] = []
        self._appended = 0
        self._refused = False
        self._sequences: dict[int, int] = {}
        self._pending: deque[tuple[int, Correct]] = deque()
        page = os.environ.get("TORTURE_CONTROL")
        self._control = Control(page) if page else None

    def play(self) -> None:
        for number, step in enumerate(self._script.steps):
            if isinstance(step, Correct):
                self._pending.append((number, step))
            else:
                self._do(number, step)
            # As the node does: the first that is pending again and again, until it is made.
            while self._pending and self._do(*self._pending[0]):
                self._pending.popleft()

    def _do(self, number: int, step: Step) -> bool:
        mark(f"b {number}")
        try:
            gave = self._carry_out(number, step)
        except HistoryError as error:
            self._refused = True
            self._tell("x", number, "")
            sys.stderr.write(f"{number}: {error}\n")
            return False
        self._tell("d", number, gave)
        return True

    def _tell(self, kind: str, number: int, gave: object) -> None:
        history = self._history
        assert history is not None
        acknowledged = self._appended if self._early else history.acknowledged
        mark(f"{kind} {number} {acknowledged} {history.given_up} {history.id} {gave}")

    def _carry_out(self, number: int, step: Step) -> object:
        history = self._history
        if isinstance(step, Open):
            self._open(number, step)
            return ""
        assert history is not None
        match step:
            case Append(stream, _, sample):
                self._appended += 1
                self._streams[stream].append(sample)
            case Commit():
                history.commit()
            case Correct(correction):
                history.correct(correction)
            case AddEvent():
                return self._add(history, step)
            case Remove(numbers):
                there = [self._sequences[n] for n in numbers if n in self._sequences]
                history.events.remove(there)
            case Checkpoint(mode):
                self._checkpoint(mode)
            case Fail(what, after, count):
                assert self._control is not None
                self._control.fail(getattr(recording, what), after=after, count=count)
            case Mend():
                assert self._control is not None
                self._control.mend()
        return ""

    def _open(self, number: int, step: Open) -> None:
        if self._history is not None:
            try:
                self._history.close()
                mark(f"o {number}")
            except HistoryError as error:
                self._refused = True
                mark(f"f {number}")
                sys.stderr.write(f"{number}: {error}\n")
            self._pending.clear()
        self._history = opened(self._path, step.boot, self._script.settings)
        if self._history.report and "cannot be written now" not in self._history.report:
            raise SystemExit(self._history.report)
        self._streams = streams(self._history)
        self._refused = self._refused and bool(self._history.report)
        self._appended = 0

    def _add(self, history: History, step: AddEvent) -> int:
        event = history.events.add(
            monotonic_ms=step.monotonic_ms,
            kind="test",
            time_ms=step.time_ms,
            synchronised=step.synchronised,
            sensor="a",
            text=f"event {step.number}",
        )
        self._sequences[step.number] = event.sequence
        return event.sequence

    def _checkpoint(self, mode: str) -> None:
        if self._refused:
            # What a failed sync has left is the history's to put right, and nobody else's.
            return
        try:
            db = sqlite3.connect(self._path, timeout=0.0)
            try:
                db.execute(f"PRAGMA wal_checkpoint({mode})")
            finally:
                db.close()
        except sqlite3.Error:
            pass  # a disk that fails, fails this too


def let_sqlite_lie(synchronous: str) -> None:
    """Take syncs away from every connection opened from now on."""

    class Lying(NamedConnection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            return super().execute(
                sql.replace("synchronous=FULL", f"synchronous={synchronous}"), *rest
            )

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **named: connect(*given, **named | {"factory": Lying})  # type: ignore[assignment]


def main() -> None:
    """Run the command."""
    seed, length, folder, *rest = sys.argv[1:]
    lies = [word for word in rest if word != "faults"]
    lie = lies[0] if lies else ""
    if lie in ("off", "normal"):
        let_sqlite_lie(lie.upper())
    played = script(int(seed), int(length), faults="faults" in rest)
    Player(played, f"{folder}/history.sqlite", lie).play()


if __name__ == "__main__":
    main()
