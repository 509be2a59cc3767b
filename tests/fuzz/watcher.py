"""An honest client with two watches at the first master: a stream of the honest node's readings,
and rounds on its alerts."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from agent.edge.history.reader import Reader
from agent.wire import messages as m
from agent.wire import watches as w
from tests.fuzz.edge import EdgeAgent
from tests.fuzz.honest import HONEST_AREA

if TYPE_CHECKING:
    from tests.fuzz.world import World

SILENCE: Final = 600
"""Steps after which it asks again."""
TRY_AGAIN: Final = "try again later"
LATE_MS: Final = 20_000
"""Of a round that should be there, after all is at rest."""
WATCHES: Final = {
    "stream": w.Watch(
        "stream", (HONEST_AREA,), m.Slo(90.0, 60_000.0), "streaming", 1.0, channels=("temperature",)
    ),
    "on": w.Watch(
        "on",
        (HONEST_AREA,),
        m.Slo(90.0, 60_000.0),
        "event",
        1.0,
        window_s=5.0,
        on=f'kind = "raised" and area under "{HONEST_AREA}"',
    ),
}


class Rounds:
    """What came of one watch."""

    def __init__(self, watch: w.Watch) -> None:
        self.watch = watch
        self.last = 0
        self.rounds: list[w.Round] = []
        self.asked = -SILENCE
        """In which step it was asked last, or something came."""
        self.opened = False
        self.end = ""
        self.told: list[str] = []


class Watcher:
    """Follows both, takes each round once, and asks again after a silence."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._heard = world.heard.setdefault("watcher", [])
        self._restarts = 0
        self.watches = {id_: Rounds(each) for id_, each in WATCHES.items()}

    def act(self) -> None:
        """Take what came."""
        came, self._heard[:] = self._heard[:], []
        for _, message in came:
            match message:
                case w.Round(id=id_):
                    self._take(self.watches[id_], message)
                case w.Watching(id=id_, state=state, message=text):
                    rounds = self.watches[id_]
                    rounds.told.append(text)
                    rounds.opened = rounds.opened or state == "open"
                    if state != "open" and (rounds.opened or TRY_AGAIN not in text):
                        rounds.end = f"{state}: {text}"
        for each in self.watches.values():
            if self._restarts != self._world.restarts or each.asked + SILENCE <= self._world.steps:
                self._ask(each)
        self._restarts = self._world.restarts

    def _ask(self, rounds: Rounds) -> None:
        rounds.asked = self._world.steps
        self._say(replace(rounds.watch, after=rounds.last) if rounds.last else rounds.watch)

    def _say(self, message: w.Watch | w.Acknowledge) -> None:
        self._world.ask("watcher", "iad1", message)

    def _take(self, rounds: Rounds, message: w.Round) -> None:
        rounds.asked = self._world.steps
        if message.number > rounds.last and message.previous == rounds.last:
            rounds.last = message.number
            rounds.rounds.append(message)
        self._say(w.Acknowledge(message.id, rounds.last))

    # --- what is promised -----------------------------------------------------------------------

    def is_served(self, *, clocks: bool) -> None:
        """Rounds came in order, each alert and reading once. With `clocks`, clocks were set."""
        for rounds in self.watches.values():
            assert not rounds.end, rounds.end
        self._has_alerts(self.watches["on"])
        self._has_readings(self.watches["stream"], clocks=clocks)

    def _has_alerts(self, rounds: Rounds) -> None:
        raised = self._world.nodes["good"].raised
        got = [each.attributes["value"] for one in rounds.rounds for each in one.alerts]
        count = sum(each.alert_count for each in rounds.rounds)
        words = f"{count} alerts in rounds, {got}, of {raised}; {rounds.told}"
        assert count == len(raised), words
        assert len(set(got)) == len(got), words
        assert set(got) <= set(raised), words

    def _has_readings(self, rounds: Rounds, *, clocks: bool) -> None:
        ends = [each.end_ms for each in rounds.rounds]
        if clocks:
            return
        for before, after in pairwise(rounds.rounds):
            assert before.end_ms == after.start_ms, (before, after)
        assert ends, "no round came"
        assert ends[-1] > self._world.wall_ms - LATE_MS, f"the last ends at {ends[-1]}"
        got = [
            time_ms
            for each in rounds.rounds
            for result in each.answer.results
            for time_ms in _times(result)
        ]
        assert got == sorted(set(got)), f"not in order: {got}"
        node = self._world.nodes["good"]
        assert isinstance(node, EdgeAgent)
        reader = Reader(node.history)
        lost = []
        for each in rounds.rounds:
            series = reader.series(each.start_ms, each.end_ms, ("temperature",))
            if series is None or each.answer.status != "complete":
                continue
            had = {t for result in each.answer.results for t in _times(result)}
            lost += [(each.number, t) for t in _milliseconds(series) if t not in had]
        reader.close()
        assert not lost, f"lost {lost}"


def _times(result: m.AreaResult) -> list[int]:
    return [] if result.series is None else _milliseconds(result.series)


def _milliseconds(series: m.Series) -> list[int]:
    return array("q", series.time_ms.native).tolist()
