"""Lines from a serial port: the pure parts against oracles, the driver over pseudo-terminals."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import serial
from hypothesis import given
from hypothesis import strategies as st

from sensors.base import ChecksumError, Driver, Options, Reading, SensorError
from sensors.registry import open_driver
from sensors.serial_line import Pauses, SerialLine, pretend
from sensors.serial_line.inbox import Inbox
from sensors.serial_line.lines import MAX_LINE, Splitter
from sensors.serial_line.mapping import Layout, layout
from tests.sensors.serial_golden import FIXTURES, NAMES, render, sample_layout

CHANNELS = [
    {"name": "temperature", "unit": "celsius", "field": 1, "low": -40, "high": 80},
    {"name": "humidity", "unit": "percent", "field": 2, "low": 0, "high": 100},
]
CSV: dict[str, Any] = {"format": "csv", "channels": CHANNELS}


def make_layout(**options: Any) -> Layout:
    return layout(Options("serial_line", options, Path()))


def outcome(read: Callable[[], Reading]) -> str | tuple[float, ...]:
    try:
        return read().values
    except SensorError as error:
        return str(error)


# Lines

stream = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"1", b"a,b", b"\xff\x00", b"\x85", b"longer than 8"]),
    max_size=30,
).map(b"".join)


def naive_lines(data: bytes, limit: int) -> list[bytes | None]:
    """What `Splitter` says, with all bytes at hand."""
    lines: list[bytes | None] = []
    for n, piece in enumerate(data.splitlines(keepends=True)):
        line = piece.rstrip(b"\r\n")
        if len(line) > limit:
            lines.append(None)
        elif n > 0 and line and line != piece:
            lines.append(line)
    return lines


@given(stream, st.lists(st.integers(0, 200), max_size=30))
def test_lines_are_those_of_splitlines_wherever_the_stream_is_cut(
    data: bytes, cuts: list[int]
) -> None:
    splitter = Splitter(limit=8)
    lines: list[bytes | None] = []
    begin = 0
    for end in [*sorted(cuts), len(data)]:
        lines += splitter.feed(data[begin:end])
        begin = max(begin, min(end, len(data)))
    assert lines == naive_lines(data, 8)


def test_a_stream_without_line_ends_takes_bounded_memory_and_is_told() -> None:
    splitter = Splitter()
    told = [line for _ in range(1000) for line in splitter.feed(b"\x00" * 100)]
    assert told == [None]
    assert sys.getsizeof(splitter._rest) < 2 * MAX_LINE
    assert splitter.feed(b"\n1,2\n") == [b"1,2"]


# What a line means


@pytest.mark.parametrize("name", NAMES)
def test_captured_bytes_read_as_their_golden_rows_say(name: str) -> None:
    assert render(name) == (FIXTURES / f"{name}.golden").read_text()


def test_the_golden_rows_cover_every_format_and_both_kinds_of_error() -> None:
    assert NAMES == ["csv", "json", "key_value", "nmea"]
    rows = "".join((FIXTURES / f"{name}.golden").read_text() for name in NAMES)
    assert "no_response: " in rows
    assert "checksum: " in rows


number = st.floats(allow_nan=False, allow_infinity=False)


@given(st.tuples(number, number), st.sampled_from([",", ";", "\t", " "]))
def test_every_number_comes_back_from_each_format(
    values: tuple[float, float], separator: str
) -> None:
    first, second = values
    csv = make_layout(format="csv", channels=CHANNELS, separator=separator)
    assert csv.values(f"{first!r}{separator}{second!r}".encode()) == values
    keys = [{**CHANNELS[0], "field": "t"}, {**CHANNELS[1], "field": "air.0.h"}]
    pairs = make_layout(format="key_value", channels=keys)
    assert pairs.values(f"t={first!r} x, air.0.h={second!r}".encode()) == values
    objects = make_layout(format="json", channels=keys)
    line = msgspec.json.encode({"air": [{"h": second}], "t": first})
    assert objects.values(line) == values


@given(st.tuples(number, number), st.integers(0, 40), st.integers(1, 255))
def test_a_changed_byte_fails_the_checksum(
    values: tuple[float, float], place: int, change: int
) -> None:
    body = f"{values[0]!r},{values[1]!r}".encode()
    computed = 0
    for byte in body:
        computed ^= byte
    checked = make_layout(**CSV, checksum="xor")
    assert checked.values(b"%s*%02x" % (body, computed)) == values
    broken = bytearray(body)
    broken[place % len(body)] ^= change
    with pytest.raises(ChecksumError, match="wrong checksum"):
        checked.values(b"%s*%02X" % (broken, computed))


layouts = st.sampled_from([sample_layout(name) for name in NAMES])
captured = b"".join((FIXTURES / f"{name}.raw").read_bytes() for name in NAMES)
noise = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([*captured.splitlines(keepends=True), b'DATA {"a":' + b"[" * 2000 + b"\n"]),
)


@given(layouts, st.lists(noise, max_size=20))
def test_no_stream_makes_more_than_readings_and_one_line_errors(
    sample: Layout, pieces: list[bytes]
) -> None:
    inbox = Inbox(sample, "port")
    inbox.opened()
    for piece in pieces:
        inbox.arrived(piece, 0.0)
        seen = outcome(lambda: inbox.take(0.0))
        if isinstance(seen, str):
            assert seen.isprintable()
            assert len(seen) < 400
        else:
            assert len(seen) == len(sample.channels)
            assert all(abs(value) < float("inf") for value in seen)


def test_deep_json_is_no_reading() -> None:
    deep = make_layout(format="json", channels=[{**CHANNELS[0], "field": "a"}])
    for depth in (500, 900, 990, 1500):
        with pytest.raises(SensorError, match=r"no JSON|no field a"):
            deep.values(b"[" * depth + b"]" * depth)


# The newest reading


def test_the_newest_valid_line_counts_once_with_its_age() -> None:
    inbox = Inbox(make_layout(**CSV), "port")
    inbox.opened()
    inbox.arrived(b"\n1,2\n3,4\nno,5\n6", 10.0)
    assert inbox.take(10.25) == Reading((3.0, 4.0), age_ms=250)
    with pytest.raises(SensorError, match=r"^no line from port since the last read"):
        inbox.take(11.0)
    inbox.arrived(b",7\n", 11.5)
    assert inbox.take(11.4) == Reading((6.0, 7.0), age_ms=0)
    inbox.arrived(b"no,5\n", 12.0)
    with pytest.raises(SensorError, match=r"^port: field 1 is no number in 'no,5'"):
        inbox.take(12.0)


def test_after_an_unplugging_the_rest_of_a_line_is_no_line() -> None:
    inbox = Inbox(make_layout(**CSV), "port")
    with pytest.raises(SensorError, match="port is not open yet"):
        inbox.take(0.0)
    inbox.opened()
    inbox.arrived(b"\n1,2\n2", 0.0)
    inbox.lost("port was unplugged")
    assert inbox.take(0.0).values == (1.0, 2.0)
    with pytest.raises(SensorError, match=r"^port was unplugged$"):
        inbox.take(1.0)
    inbox.opened()
    inbox.arrived(b"1.5,40\n21.5,40\n", 2.0)
    assert inbox.take(2.0).values == (21.5, 40.0)


def test_pauses_double_up_to_30_s_and_begin_again_once_bytes_came() -> None:
    pauses = Pauses()
    assert [pauses.next() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    pauses.reset()
    assert pauses.next() == 0.5


# Options


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"port": None}, "port is missing, such as /dev/ttyUSB0"),
        ({"baud": 0}, "baud must be 1 or more"),
        ({"baud": "fast"}, "baud must be a whole number"),
        ({"format": None}, "format is missing; known: csv, json, key_value"),
        ({"format": "cvs"}, r"format cvs is not known; did you mean csv\?"),
        ({"checksum": "crc"}, "checksum crc is not known; known: nmea, xor"),
        ({"format": "json", "separator": ";"}, "separator has no use with format json"),
        ({"channels": None}, "channels is missing"),
        ({"channels": {"name": "t"}}, "channels must be a list of tables"),
        ({"channels": [{"name": "t"}]}, "channels 1: name, unit, low and high are needed"),
        ({"channels": [{**CHANNELS[0], "lwo": 1}]}, r"channels 1: .* lwo; did you mean low\?"),
        ({"channels": [{**CHANNELS[0], "low": 80}]}, "channels 1: low must be under high"),
        ({"channels": [{**CHANNELS[0], "low": "0"}]}, "channels 1: low must be a number"),
        ({"channels": [{**CHANNELS[0], "high": float("inf")}]}, "high must be a number"),
        ({"channels": [{**CHANNELS[0], "field": None}]}, "channels 1: field is missing"),
        ({"channels": [CHANNELS[1], {**CHANNELS[0], "field": 0}]}, "channels 2: .* first one is 1"),
        ({"channels": [{**CHANNELS[0], "field": "T"}]}, "field T is no column"),
        ({"channels": [CHANNELS[0], CHANNELS[0]]}, "two channels have one name"),
        ({"bauds": 9600}, r"unknown option bauds; did you mean baud\?"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    given_options = {"port": "port", **CSV, **changes}
    with pytest.raises(SensorError, match=problem) as caught:
        open_driver("serial_line", given_options, tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("serial_line: ")


def test_without_pyserial_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(SensorError, match=r"pyserial is missing: pip install '\.\[drivers\]'"):
        open_driver("serial_line", {"port": "port", **CSV}, tmp_path)


# The driver, over a pseudo-terminal


class Plug:
    """The sensor's end of a line whose other end is the path `port`, as a USB adapter's would be:
    gone when it is unplugged, another device when it is back."""

    def __init__(self, port: Path) -> None:
        self.port = port
        self._end: int | None = None

    def insert(self) -> None:
        self._end, other = os.openpty()
        tty.setraw(other)
        new = self.port.with_suffix(".new")
        new.symlink_to(os.ttyname(other))
        new.replace(self.port)
        os.close(other)

    def send(self, data: bytes) -> None:
        assert self._end is not None
        os.write(self._end, data)

    def pull(self) -> None:
        if self._end is not None:
            # First the path: another process may get the terminal's number as soon as it is free.
            self.port.unlink()
            os.close(self._end)
            self._end = None


@pytest.fixture
def plug(tmp_path: Path) -> Iterator[Plug]:
    plug = Plug(tmp_path / "port")
    yield plug
    plug.pull()


@pytest.fixture
def opened(plug: Plug) -> Iterator[Callable[..., SerialLine]]:
    drivers: list[SerialLine] = []

    def open_line(
        clock: Callable[[], float] = lambda: 0.0,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> SerialLine:
        pauses = Pauses(0.001, 0.001)
        layout = make_layout(**CSV)
        driver = SerialLine(str(plug.port), 9600, layout, 0.04, pauses, clock, cpu_clock)
        drivers.append(driver)
        return driver

    yield open_line
    for driver in drivers:
        driver.close()


def await_outcome(driver: Driver, wanted: str | tuple[float, ...]) -> None:
    """Read until the outcome is `wanted`, or an error with that text in it; a read waits for news,
    so this is no busy loop."""
    seen: str | tuple[float, ...] = ""
    for _ in range(3000):
        seen = outcome(driver.read)
        if seen == wanted or (isinstance(seen, str) and isinstance(wanted, str) and wanted in seen):
            return
    raise AssertionError(f"{wanted} did not come; the last was {seen}")


def test_a_port_that_is_not_there_is_awaited(plug: Plug, opened: Callable[..., SerialLine]) -> None:
    driver = opened()
    await_outcome(driver, "port is not there")
    plug.insert()
    await_outcome(driver, "no line from")
    plug.send(b"\n21.5,40.2\n")
    await_outcome(driver, (21.5, 40.2))
    assert list(driver.preload()) == []
    assert [channel.name for channel in driver.channels] == ["temperature", "humidity"]


def test_a_device_that_sends_without_end_waits_for_other_work(
    plug: Plug, opened: Callable[..., SerialLine]
) -> None:
    plug.insert()
    busy_s = itertools.count(0.0, 1e6)
    driver = opened(cpu_clock=lambda: next(busy_s))
    await_outcome(driver, "no line from")
    plug.send(b"\n21.5,40.2\n")
    await_outcome(driver, (21.5, 40.2))
    plug.send(b"22.5,41.2\n")
    assert "no line from" in str(outcome(driver.read))
    driver.close()  # which it does not keep up


def test_of_many_lines_at_once_the_newest_valid_one_is_read(monkeypatch) -> None:
    layout, read = make_layout(**CSV), []
    values = layout.values
    monkeypatch.setattr(layout, "values", lambda line: read.append(line) or values(line))
    inbox = Inbox(layout, "port")
    inbox.opened()
    inbox.arrived(b"\n" + b"1,2\n" * 500 + b"3,4\nno,5\nno,6\n", 0.0)
    assert read == [b"no,6", b"no,5", b"3,4"]
    assert inbox.take(0.0).values == (3.0, 4.0)
    inbox.arrived(b"no,7\nno,8\n", 0.0)
    with pytest.raises(SensorError, match="'no,8'"):
        inbox.take(0.0)


def test_unplugged_and_plugged_in_again_in_the_middle_of_a_line(
    plug: Plug, opened: Callable[..., SerialLine]
) -> None:
    driver = opened()
    files = set(Path("/proc/self/fd").iterdir())
    threads = threading.active_count()
    for n in range(20):
        plug.insert()
        await_outcome(driver, "no line from")
        plug.send(b"\n%d,40\n2" % n)
        await_outcome(driver, (float(n), 40.0))
        plug.pull()
        await_outcome(driver, "port is not there")
    assert set(Path("/proc/self/fd").iterdir()) == files
    assert threading.active_count() < threads + 10


def test_lines_cut_at_every_byte_and_garbage_between(
    plug: Plug, opened: Callable[..., SerialLine]
) -> None:
    driver = opened()
    plug.insert()
    await_outcome(driver, "no line from")
    plug.send(b"\xff\x00\xfe\n")
    line = b"21.5,40.2\r\n"
    for cut in range(1, len(line)):
        plug.send(line[:cut])
        plug.send(line[cut:])
        await_outcome(driver, (21.5, 40.2))
        plug.send(b"\xff\x00,\x80\n")
        await_outcome(driver, r"not UTF-8: '\xff\x00,\x80'")
    for byte in line:
        plug.send(bytes([byte]))
    await_outcome(driver, (21.5, 40.2))


def test_the_age_counts_from_the_arrival(plug: Plug, opened: Callable[..., SerialLine]) -> None:
    now = [100.0]
    driver = opened(lambda: now[0])
    plug.insert()
    await_outcome(driver, "no line from")
    plug.send(b"\n21.5,40.2\n")
    with driver._news:
        assert driver._news.wait_for(lambda: driver._inbox.has_news, 30.0)
    now[0] = 100.7
    assert driver.read() == Reading((21.5, 40.2), age_ms=700)


def test_a_line_that_comes_during_a_read_is_its_reading(
    plug: Plug, opened: Callable[..., SerialLine]
) -> None:
    driver = opened()
    plug.insert()
    await_outcome(driver, "no line from")
    plug.send(b"\n")
    driver._wait_s = 60.0
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.append(outcome(driver.read)))
    reader.start()
    while not driver._news._waiters and reader.is_alive():  # type: ignore[attr-defined]
        reader.join(0.001)
    plug.send(b"21.5,40.2\n")
    reader.join()
    assert seen == [(21.5, 40.2)]


def test_a_port_in_use_is_left_alone(plug: Plug, opened: Callable[..., SerialLine]) -> None:
    plug.insert()
    with serial.Serial(str(plug.port), exclusive=True):
        driver = opened()
        await_outcome(driver, "port is in use by another program")
    await_outcome(driver, "no line from")


def test_what_is_no_terminal_cannot_be_opened(
    plug: Plug, opened: Callable[..., SerialLine]
) -> None:
    plug.port.write_text("21.5,40.2\n")
    await_outcome(opened(), "cannot be opened: ")


@pytest.mark.parametrize("arguments", [(), ("--lines", FIXTURES / "csv.raw", "--every", "0.01")])
def test_the_pretended_sensor_is_one(
    plug: Plug, opened: Callable[..., SerialLine], arguments: tuple[object, ...]
) -> None:
    driver = opened()
    process = subprocess.Popen(
        [sys.executable, pretend.__file__, str(plug.port), *map(str, arguments)]
    )
    try:
        seen = [outcome(driver.read)]
        while isinstance(seen[-1], str) and len(seen) < 3000:
            seen.append(outcome(driver.read))
        assert len(seen[-1]) == 2
    finally:
        process.terminate()
        assert process.wait() == 0
    await_outcome(driver, "port is not there")


def test_a_mistake_in_the_thread_is_told_and_does_not_end_it(
    plug: Plug, opened: Callable[..., SerialLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistake(*_: object) -> None:
        raise IndexError("out of range")

    plug.insert()
    with monkeypatch.context() as patch:
        patch.setattr(SerialLine, "_receive", mistake)
        driver = opened()
        await_outcome(driver, "port: IndexError: out of range")
    await_outcome(driver, "no line from")
