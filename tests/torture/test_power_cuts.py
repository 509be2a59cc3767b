"""The short version of the power-cut campaign (`make torture` is the full one), and proof that it
finds a history that lies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from agent.edge.history import wal
from agent.edge.history.recovery import write_log_again
from tests.torture import campaign
from tests.torture.agents import chain
from tests.torture.campaign import Job, Outcome
from tests.torture.cuts import cuts, images, judged, played
from tests.torture.report import NEVER


@pytest.mark.parametrize("job", [Job("cuts", 7), Job("cuts", 8), Job("faults", 7)], ids=str)
def test_nothing_acknowledged_is_lost(job: Job, recorder: str) -> None:
    outcome = campaign.perform(job, recorder)
    assert outcome.wrong == []
    assert not any(outcome.counts[name] for name in NEVER)
    assert campaign.images_in(outcome.counts) == campaign.CUTS
    assert outcome.counts["with unsynced changes"] > campaign.CUTS // 4
    assert outcome.counts["acknowledged readings held against images"] > 1_000


def test_the_agent_starts_on_what_a_power_cut_left(recorder: str) -> None:
    verdicts = list(chain(recorder, 3, 3))
    assert [verdict.wrong for verdict in verdicts] == [[]] * 3
    assert sum(verdict.acknowledged for verdict in verdicts) > 0


@pytest.mark.parametrize("lie", ["off", "normal", "early"])
def test_a_history_that_lies_is_found(lie: str, recorder: str, tmp_path: Path) -> None:
    recorded = played(recorder, 5, campaign.LENGTH, lie=lie)
    wanted = cuts(5, range(campaign.CUTS), recorded.log)
    found = [judged(image, recorded, tmp_path / "disk") for image in images(recorded, wanted)]
    assert any("LOST" in line for lines in found for line in lines)


def test_a_log_is_on_the_card_before_it_is_trusted(tmp_path: Path) -> None:
    path, log = tmp_path / "h", tmp_path / "h-wal"
    write_log_again(str(path))
    assert list(tmp_path.iterdir()) == []
    content = Random(1).randbytes(10_000)
    log.write_bytes(content)
    before = log.stat().st_ino
    with log.open("rb"):  # keeps its number from being given again
        write_log_again(str(path))
        assert log.stat().st_ino != before
    assert log.read_bytes() == content
    assert list(tmp_path.iterdir()) == [log]


def test_a_tail_torn_after_the_mark_of_a_record_has_the_ones_before(tmp_path: Path) -> None:
    path = tmp_path / "tail"
    chunk = wal.Chunk(1, 0, "a", 0, 0, True, "", b"x")
    wal.WriteAheadLog(str(path), wal.Head(wal.VERSION, "h", "b"), [chunk]).close()
    content = path.read_bytes()
    end = len(content.rstrip(b"\0"))
    path.write_bytes(content[:end] + wal.MARK + content[end + len(wal.MARK) :])
    found = wal.read(str(path))
    assert found is not None
    assert (found.chunks, found.damaged) == ([chunk], 0)


def test_an_image_is_a_function_of_seed_and_number(recorder: str) -> None:
    made = []
    for _ in range(2):
        recorded = played(recorder, 9, 40)
        wanted = cuts(9, range(20), recorded.log)
        made.append([image.files.keys() for image in images(recorded, wanted)])
    assert made[0] == made[1]
    outcome = Outcome(Counter(), [])
    campaign.scripted(Job("cuts", 9), recorder, outcome, only=3)
    assert campaign.images_in(outcome.counts) == 1
