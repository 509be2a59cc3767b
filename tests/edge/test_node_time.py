"""The node's time: what is stored follows the clock, also when the disk refuses at first."""

from __future__ import annotations

from agent.edge.clocks import Clocks, boot_id
from agent.edge.history.file import HistoryError
from agent.edge.node_time import Moment, NodeTime
from agent.edge.timebase import Correction, TimeBase


class ToldClocks(Clocks):
    """Clocks that say what they are told."""

    def __init__(self) -> None:
        self.at: tuple[float, float, bool] = (10.0, 100.0, False)

    def monotonic(self) -> float:
        return self.at[0]

    def wall(self) -> float:
        return self.at[1]

    def synchronised(self) -> bool:
        return self.at[2]


def test_a_correction_that_fails_is_made_with_the_next_moment() -> None:
    clocks = ToldClocks()
    made: list[Correction] = []
    told: list[Moment] = []
    failures: list[str] = []
    full = [False]

    def correct(correction: Correction) -> int:
        if full[0]:
            raise HistoryError("disk full")
        made.append(correction)
        return 389_000

    time = NodeTime(
        clocks,
        TimeBase(),
        correct,
        lambda moment, _: told.append(moment),
        lambda error: failures.append(str(error)),
    )
    time.moment()
    made.clear()
    told.clear()
    full[0] = True
    clocks.at = (11.0, 500.0, True)
    assert time.moment() == Moment(500_000, 11_000, True)
    clocks.at = (12.0, 501.0, True)
    time.moment()
    assert (made, failures) == ([], ["disk full"] * 2)
    full[0] = False
    clocks.at = (13.0, 502.0, True)
    now = time.moment()
    assert [correction.offset_until_ms for correction in made] == [489_000]
    assert told == [now]
    assert time.now_ms() == 502_000


def test_this_machine_has_clocks() -> None:
    clocks = Clocks()
    assert clocks.synchronised() in (True, False)
    assert clocks.monotonic() > 0
    assert clocks.wall() > 1.7e9
    assert len(boot_id()) == 36
