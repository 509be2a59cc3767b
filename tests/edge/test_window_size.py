"""A series that no message can hold is refused before it is read, with what would fit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.history.window_size import TooLargeError
from agent.edge.pods.pods import ReceivedSubtask, execute
from agent.wire import codec
from agent.wire.messages import Window
from agent.wire.node_messages import NodeMessage, Subtask, SubtaskResult
from agent.wire.too_large import bytes_of, in_words, too_large
from tests.examples import examples

START_MS = 1_700_000_000_000
READINGS = 600
DECODER: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage)


class Unread(Reader):
    """Counts the groups whose columns it reads."""

    reads = 0

    def _read(self, row: object) -> None:
        self.reads += 1
        return super()._read(row)  # type: ignore[return-value]


def history_of(path: Path, sensors: int = 3, readings: int = READINGS) -> History:
    """Sensors with two channels each at 1 Hz, one of them a replay with flags."""
    history = History(path, "boot", group_readings=50, commit_s=1e6, retention_s=1e9)
    streams = [history.stream(f"s{n}", (f"a{n}", f"b{n}")) for n in range(sensors)]
    for i in range(readings):
        for n, stream in enumerate(streams):
            at_ms = i * 1000 + n
            source_ms = 7 if n == 1 else None
            flags = (0, 16) if n == 2 else ()
            stream.append(Sample(START_MS + at_ms, at_ms, True, (1.0, 2.0), source_ms, 0, flags))
    return history


def served(reader: Reader, window: Window, channels: tuple[str, ...] = ()) -> SubtaskResult:
    subtask = Subtask(1, window, channels)
    received = ReceivedSubtask(subtask, time.monotonic(), START_MS + READINGS * 1000)
    message, _ = DECODER.decode(execute(reader, received, 0.0, threading.Event()))
    assert isinstance(message, SubtaskResult)
    return message


def test_it_is_told_before_a_column_is_read_and_what_it_suggests_fits(tmp_path: Path) -> None:
    history = history_of(tmp_path / "h.sqlite")
    reader = Unread(history, most_bytes=30_000)
    window = Window(start_ms=START_MS, end_ms=START_MS + READINGS * 1000)
    refused = served(reader, window)
    assert reader.reads == 0
    assert refused.outcome == "error"
    assert refused.too_large is not None
    # 1,800 readings of times, source times, six channels and the flags of one.
    assert refused.too_large.bytes == 1_800 * (8 + 8 + 6 * 4 + 1)
    assert refused.message == in_words(refused.too_large, 30_000)
    longest_s = refused.too_large.longest_s
    fits = served(reader, Window(last_s=longest_s))
    assert fits.outcome == "ok"
    assert fits.series is not None
    assert 20_000 < bytes_of(fits.series) <= 30_000
    assert served(reader, window, ("a0",)).outcome == "ok"
    reader.close()
    history.close()


def test_what_the_ends_of_the_window_have_beyond_their_share_is_seen_in_the_end(
    tmp_path: Path,
) -> None:
    """The first group has all its readings in its last second: 49 of 50 are in the window."""
    history = History(tmp_path / "h", "boot", group_readings=50, commit_s=1e6, retention_s=1e9)
    stream = history.stream("s", ("a",))
    for i in range(50):
        at_ms = 0 if i == 0 else 1_000_000 + i
        stream.append(Sample(START_MS + at_ms, at_ms, True, (1.0,)))
    history.commit()
    reader = Reader(history, most_bytes=400)
    end_ms = START_MS + 2_000_000
    refused = served(reader, Window(start_ms=START_MS + 999_000, end_ms=end_ms))
    assert refused.too_large is not None
    assert refused.too_large.bytes == 49 * 12
    reader.close()
    history.close()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    made = history_of(tmp_path_factory.mktemp("history") / "h.sqlite")
    yield made
    made.close()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, READINGS * 1000 - 1),
    st.integers(1, READINGS * 1000),
    st.sampled_from([(), ("a0",), ("b1", "a2"), ("b2_raw",), ("a0", "nope")]),
)
def test_its_size_is_known_to_a_reading_or_two_a_group_at_the_ends(
    history: History, start: int, length: int, channels: tuple[str, ...]
) -> None:
    bounds = START_MS + start, START_MS + start + length
    with closing(Reader(history)) as reader:
        series = reader.series(*bounds, channels)
    if series is not None:
        size, width = bytes_of(series), 8 + 8 + 6 * 4 + 6
        near = 2 * 3 * width
        with closing(Reader(history, most_bytes=size + near)) as enough:
            enough.series(*bounds, channels)
        if size > near:
            with (
                closing(Reader(history, most_bytes=size - near - 1)) as less,
                pytest.raises(TooLargeError),
            ):
                less.series(*bounds, channels)


FEWER = "fewer channels or areas, or aggregates"


@pytest.mark.parametrize(
    ("size", "most", "length_s", "there", "fit", "window"),
    [
        (24_883_200, 16_711_680, 259_200, "25 MB", "17 MB", "at most 48 h of it, "),
        (20_000_000, 10_000_000, 86_400 * 366, "20 MB", "10 MB", "at most 183 days of it, "),
        (3_000_000, 1_000_000, 1_000, "3.0 MB", "1.0 MB", "at most 5 minutes of it, "),
        (3_000_000, 1_000_000, 1.0, "3.0 MB", "1.0 MB", ""),
    ],
)
def test_in_words(size: int, most: int, length_s: float, there: str, fit: str, window: str) -> None:
    text = f"{there} of readings, at most {fit} fit: ask for {window}{FEWER}"
    assert in_words(too_large(size, most, length_s), most) == text
