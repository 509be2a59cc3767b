"""What is said of a pull, and with which status it ends."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from fleet.common import exits
from fleet.lake.pull.counts import Counts
from fleet.lake.pull.outcome import HostPulled, Pulled, cells, lines, status_of, total_of
from fleet.lake.pull.screen import Moving, told

DONE = HostPulled("iad1/master", "done", bytes=1_500, records=10, expired_files=2, seconds=1.0)
NODE = HostPulled("iad1/n1", "bounded", bytes=21_000_000, groups=3, readings=1_800)
LOST = HostPulled("iad1/n2", "lost", "not a word for 30 s", "run it again")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (["done", "bounded"], exits.DONE),
        (["done", "dead"], exits.FAILED),
        (["dead", "lost"], exits.NOTHING),
        (["done", "interrupted"], exits.INTERRUPTED),
        (["dead", "skipped"], exits.INTERRUPTED),
    ],
)
def test_the_status_says_how_many_are_well(outcomes, status):
    assert status_of([HostPulled("h", outcome) for outcome in outcomes]) == status


def test_numbers_are_added_up():
    found = total_of([DONE, NODE, NODE])
    assert found == Counts(42_001_500, 10, 6, 3_600, 2, 0, 0)


def test_a_row_says_what_there_is():
    assert cells(DONE) == ["iad1/master", "done", "10", "–", "2 kB", "2 files"]
    assert cells(NODE) == ["iad1/n1", "bounded", "–", "1800", "21 MB", "–"]


def test_lines_below_name_errors_bounds_and_what_expired():
    hosts = (DONE, NODE, LOST)
    pulled = Pulled("p", "lake", "t", hosts, total_of(hosts), 2.0)
    assert list(lines(pulled)) == [
        "iad1/n2: not a word for 30 s (run it again)",
        "more is there on 1 host than one pull takes: run it again",
        "new in lake: 10 records and 1800 readings (2.0 s)",
        "a running node's newest readings, ten minutes at 1 Hz, come with a later pull",
        "expired before it was pulled: 2 files; pull more often, or keep more",
    ]


def test_no_node_is_spoken_of_where_only_masters_were_pulled():
    said = list(lines(Pulled("p", "lake", "t", (DONE, LOST), total_of([DONE]), 2.0)))
    assert not [text for text in said if "running node" in text]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (DONE, "10 records"),
        (NODE, "1800 readings, and there is more"),
        (LOST, "not a word for 30 s"),
        (HostPulled("h", "done"), "nothing new"),
        (HostPulled("h", "interrupted", records=1), "1 record, interrupted"),
    ],
)
def test_each_host_is_a_line(host, said):
    assert told(host) == said


def test_on_a_terminal_one_line_moves_and_errors_stay():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, highlight=False)
    with Progress(
        TextColumn("{task.completed}/{task.total} {task.description}"), console=console
    ) as p:
        view = Moving(p, 3)
        view.landed(12_000_000)
        view.landed(9_000_000)
        view.ended(DONE)
        view.ended(LOST)
    text = out.getvalue()
    assert "iad1/n2: not a word for 30 s\n" in text
    assert "2/3 21 MB" in text
