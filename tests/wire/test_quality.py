"""Quality of values on the wire: its flags, what counts as measured, and peers without it."""

import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import quality
from agent.wire.base import Channel, Count, Finite, Message, WireStruct
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, encode
from agent.wire.packed import Float32Column, Int64Column, UInt8Column
from sensors.quality import flags as sensor_flags
from tests.wire.samples import SAMPLES
from tools.make_docs import DOCS

FLAGS = {name: 1 << bit for bit, name in enumerate(quality.FLAGS)}


# --- flags --------------------------------------------------------------------------------------


def test_the_flags_are_those_of_the_sensors():
    assert quality.FLAGS == sensor_flags.NAMES
    assert quality.BAD == sensor_flags.BAD
    assert {name: getattr(sensor_flags, name.upper()) for name in FLAGS} == FLAGS
    assert sum(FLAGS.values()) == sensor_flags.BAD | sensor_flags.SUSPECT
    for flags in range(256):
        assert quality.names(flags) == sensor_flags.names(flags)


def test_the_wire_page_has_the_flags():
    page = (DOCS / "understand/wire.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (bad|suspect) \|", page, re.MULTILINE)
    expected = [
        (str(flag), name, "bad" if flag & quality.BAD else "suspect")
        for name, flag in FLAGS.items()
    ]
    assert rows == expected


def test_names_tell_the_flags_that_are_set():
    assert quality.names(0) == ()
    assert quality.names(FLAGS["spike"] | FLAGS["drift"]) == ("spike", "drift")
    assert quality.names(64 | 1) == ("no_response",), "a later version's flag has no name here"


@given(st.binary())
def test_counts_are_of_bad_and_of_suspect_values(flags):
    bad = [f for f in flags if f & quality.BAD]
    suspect = [f for f in flags if f and not f & quality.BAD]
    assert quality.counts(flags) == (len(bad), len(suspect))


# --- what is measured ---------------------------------------------------------------------------


@given(st.lists(st.tuples(st.none() | st.integers(-100, 100), st.integers(0, 255)), max_size=20))
def test_measured_values_are_those_that_are_neither_missing_nor_bad(rows):
    values = Float32Column.of([math.nan if value is None else value for value, _ in rows])
    flags = {"x": UInt8Column.of([flags for _, flags in rows])}
    series = m.Series(Int64Column.of(range(len(rows))), {"x": values, "y": values}, quality=flags)
    for channel, bad in (("x", quality.BAD), ("y", 0)):
        measured = [None if math.isnan(value) else value for value in series.measured(channel)]
        assert measured == [None if flags & bad else value for value, flags in rows]
    assert series.values["x"] == values, "what was sent stays as it is"


def test_a_channel_that_is_not_there_has_no_measured_values():
    with pytest.raises(KeyError):
        SAMPLES["subtask_faulty"].series.measured("co2")


def test_an_aggregate_has_numbers_where_something_was_counted_and_nowhere_else():
    assert m.ChannelAggregate(2, 1.0, 2.0, 3.0, bad=1).extent == (1.0, 2.0, 3.0)
    assert m.ChannelAggregate(0, bad=3).extent is None
    [dead] = SAMPLES["subtask_dead_sensor"].aggregate.channels.values()
    assert msgspec.json.encode(dead) == b'{"count":0,"bad":2}'
    for numbers in ((0, 1.0, 2.0, 3.0), (1,), (1, 1.0, 2.0), (0, None, 1.0)):
        with pytest.raises(ValueError, match="where its count is above 0"):
            m.ChannelAggregate(*numbers)


# --- peers that do not know it ------------------------------------------------------------------


class OldSeries(WireStruct, frozen=True, omit_defaults=True):
    """`Series` as it was before quality and age."""

    time_ms: Int64Column
    values: dict[Channel, Float32Column]
    source_time_ms: Int64Column | None = None


class OldChannelAggregate(WireStruct, frozen=True):
    """`ChannelAggregate` as it was before bad and suspect."""

    count: Count
    min: Finite
    mean: Finite
    max: Finite


class OldAggregate(WireStruct, frozen=True):
    """`Aggregate` of these."""

    first_ms: int
    last_ms: int
    channels: dict[Channel, OldChannelAggregate]


class OldSubtaskResult(Message, frozen=True, tag="subtask_result", omit_defaults=True):
    """`SubtaskResult` of these."""

    id: int
    outcome: str
    wait_ms: float
    execution_ms: float
    series: OldSeries | None = None
    aggregate: OldAggregate | None = None
    message: str = ""


OLD, NEW = Decoder(OldSubtaskResult), Decoder(nm.SubtaskResult)
CODECS = pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])


@CODECS
def test_a_peer_without_quality_reads_what_it_knows(codec):
    sent = SAMPLES["subtask_faulty"]
    assert sent.series.quality
    assert sent.series.age_ms
    received, _ = OLD.decode(encode(sent, codec))
    assert received.series == OldSeries(sent.series.time_ms, sent.series.values)
    sent = SAMPLES["subtask_aggregate"]
    [channel] = sent.aggregate.channels.values()
    assert channel.bad
    received, _ = OLD.decode(encode(sent, codec))
    assert received.aggregate.channels == {
        name: OldChannelAggregate(c.count, c.min, c.mean, c.max)
        for name, c in sent.aggregate.channels.items()
    }


@CODECS
def test_what_a_peer_without_quality_sends_is_all_good(codec):
    sent = SAMPLES["subtask_faulty"].series
    old = OldSubtaskResult(1, "ok", 0.0, 0.0, series=OldSeries(sent.time_ms, sent.values))
    received, _ = NEW.decode(encode(old, codec))
    assert received.series == m.Series(sent.time_ms, sent.values)
    old = OldAggregate(0, 1, {"x": OldChannelAggregate(1, 2.0, 2.0, 2.0)})
    received, _ = NEW.decode(encode(OldSubtaskResult(1, "ok", 0.0, 0.0, aggregate=old), codec))
    assert received.aggregate.channels == {"x": m.ChannelAggregate(1, 2.0, 2.0, 2.0, 0, 0)}


@CODECS
def test_good_readings_look_to_everybody_as_they_always_did(codec):
    """No byte more on the wire where nothing is wrong."""
    new = SAMPLES["subtask_result"]
    assert not new.series.quality
    old = OldSubtaskResult(
        *(getattr(new, name) for name in ("id", "outcome", "wait_ms", "execution_ms")),
        series=OldSeries(new.series.time_ms, new.series.values, new.series.source_time_ms),
    )
    assert encode(new, codec) == encode(old, codec)


def test_columns_of_a_later_version_are_ignored():
    frame = encode(SAMPLES["subtask_faulty"], JSON)
    later = msgspec.json.decode(frame[3:])
    later["series"]["confidence"] = {"temperature": [0.5, 0.5]}
    received, _ = NEW.decode(b"11J" + msgspec.json.encode(later))
    assert received == SAMPLES["subtask_faulty"]
