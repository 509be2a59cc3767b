"""The iio driver reads sysfs trees as the kernel makes them, and gives no measurement twice."""

from __future__ import annotations

import csv
import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sensors.iio
from sensors.base import ChecksumError, Driver, SensorError
from sensors.iio import DHT11_INTERVAL_S, Iio
from sensors.iio.sysfs import Device, find
from sensors.quality.flags import CHECKSUM, NO_RESPONSE
from sensors.registry import open_driver

FIXTURES = Path(sensors.iio.__file__).parent / "fixtures"
DEVICE = "iio:device0"


def open_iio(folder: Path, interval_s: float = 2.5, **options: Any) -> Driver:
    return open_driver("iio", {"sysfs": str(folder), **options}, folder, interval_s)


def plug(folder: Path, fixture: str, number: str = DEVICE) -> Path:
    shutil.copytree(FIXTURES / fixture / DEVICE, folder / number)
    return folder / number


with (FIXTURES / "golden.csv").open(newline="") as file:
    GOLDEN = list(csv.DictReader(file))


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["device"])
def test_a_tree_reads_as_its_golden_row_says(row: dict[str, str]) -> None:
    driver = open_iio(FIXTURES / row["device"])
    names = [name for name in ("temperature", "humidity", "pressure") if row[name]]
    assert [channel.name for channel in driver.channels] == names
    values = driver.read().values
    assert values == pytest.approx([float(row[n]) for n in names], rel=1e-12)
    for channel, value in zip(driver.channels, values, strict=True):
        assert channel.low < value < channel.high
    assert list(driver.preload()) == []
    driver.close()


@pytest.mark.parametrize("wanted", ["iio:device3", "dht11@4", "dht11"])
def test_a_device_is_chosen_by_number_or_name(tmp_path: Path, wanted: str) -> None:
    plug(tmp_path, "bme280")
    plug(tmp_path, "dht22", "iio:device3")
    assert open_iio(tmp_path, device=wanted).read().values == (21.3, 47.6)


def test_channels_are_chosen_and_ordered(tmp_path: Path) -> None:
    plug(tmp_path, "bme280")
    driver = open_iio(tmp_path, channels=["pressure", "temperature"])
    assert [channel.name for channel in driver.channels] == ["pressure", "temperature"]
    assert driver.read().values == pytest.approx((985.53710937, 21.37))


def test_devices_without_a_known_quantity_do_not_count(tmp_path: Path) -> None:
    plug(tmp_path, "dht22")
    (tmp_path / "iio:device1").mkdir()
    (tmp_path / "iio:device1" / "in_voltage0_raw").write_text("1\n")
    (tmp_path / "trigger0").write_text("")
    assert open_iio(tmp_path).read().values == (21.3, 47.6)


@pytest.mark.parametrize(
    ("plugged", "options", "problem"),
    [
        ([], {}, "no device in .* gives temperature, .*dtoverlay=dht11,gpiopin=4"),
        ([], {"sysfs": "nowhere"}, "nowhere is not there: .*dtoverlay=dht11,gpiopin=4"),
        (["dht22", "bme280"], {}, r"several .* iio:device0 \(dht11@4\), iio:device1 \(bme280\)"),
        (["dht22", "dht22"], {"device": "dht11"}, "several devices fit"),
        (["bme280"], {"device": "dht11"}, r"no device dht11; there are: iio:device0 \(bme280\)"),
        (["bme280"], {"channels": "pressure"}, "channels must be a list of texts"),
        (["bme280"], {"channels": ["co2"]}, "no channel co2; known: temperature, humidity"),
        (["bme280"], {"channels": ["humidity", "humidity"]}, "names something twice"),
        (["bme280"], {"devcie": "bme280"}, "did you mean device?"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    tmp_path: Path, plugged: list[str], options: dict[str, Any], problem: str
) -> None:
    for n, fixture in enumerate(plugged):
        plug(tmp_path, fixture, f"iio:device{n}")
    with pytest.raises(SensorError, match=problem) as caught:
        open_iio(tmp_path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("iio: ")


@pytest.mark.parametrize("name", ["dht11@4", "humidity-sensor"])
def test_a_dht_read_every_2_s_is_refused(tmp_path: Path, name: str) -> None:
    (plug(tmp_path, "dht22") / "name").write_text(f"{name}\n")
    with pytest.raises(SensorError, match=f"interval_s must be 2.1 or more for {name}"):
        open_iio(tmp_path, interval_s=2.0)
    plug(tmp_path, "bme280", "iio:device1")
    assert len(open_iio(tmp_path, interval_s=0.1, device="bme280").read().values) == 3


@pytest.mark.parametrize(
    ("code", "kind", "flag", "problem"),
    [
        (errno.ETIMEDOUT, SensorError, NO_RESPONSE, "does not answer"),
        (errno.EIO, ChecksumError, CHECKSUM, "bits missing or a wrong checksum"),
        (errno.EAGAIN, SensorError, NO_RESPONSE, "Resource temporarily unavailable"),
    ],
)
def test_errors_of_the_dht_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[SensorError], flag: int, problem: str
) -> None:
    driver = open_iio(FIXTURES / "dht22")

    def fail(*_: object) -> float:
        raise OSError(code, "Resource temporarily unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Device, "read", fail)
        with pytest.raises(SensorError, match=problem) as caught:
            driver.read()
    assert type(caught.value) is kind
    assert caught.value.flag == flag
    assert driver.read().values == (21.3, 47.6)


def test_an_error_of_the_bus_keeps_its_name(tmp_path: Path) -> None:
    path = plug(tmp_path, "bme280") / "in_temp_input"
    path.unlink()
    path.symlink_to("/proc/self/mem")  # a file whose first byte cannot be read: a real EIO
    with pytest.raises(SensorError, match=r"^bme280: in_temp: Input/output error") as caught:
        open_iio(tmp_path).read()
    assert caught.value.flag == NO_RESPONSE


@pytest.mark.parametrize("content", ["", "nan\n", "inf\n", "21.3 dB\n", "warm\n", "\xb0\n"])
def test_a_file_without_a_number_is_one_line(tmp_path: Path, content: str) -> None:
    (plug(tmp_path, "bme280") / "in_temp_input").write_text(content)
    with pytest.raises(SensorError, match=r"^bme280 gives no number as in_temp"):
        open_iio(tmp_path).read()


def test_a_device_that_goes_is_found_again_under_another_number(tmp_path: Path) -> None:
    plug(tmp_path, "dht22", "iio:device0")
    kernel = Kernel()
    driver = Iio(str(tmp_path), "dht11", (), 2.5, kernel.clock, kernel.sleep)
    assert driver.read().values == (21.3, 47.6)
    shutil.rmtree(tmp_path / "iio:device0")
    with pytest.raises(SensorError, match=r"^dht11@4 \(iio:device0\) has no in_temp any more"):
        driver.read()
    with pytest.raises(SensorError, match="dtoverlay=dht11"):
        driver.read()
    plug(tmp_path, "bme280", "iio:device0")
    with pytest.raises(SensorError, match=r"^no device dht11; there are"):
        driver.read()
    plug(tmp_path, "dht22", "iio:device1")
    assert driver.read().values == (21.3, 47.6)


def test_with_channels_named_the_device_may_come_later(tmp_path: Path) -> None:
    driver = open_iio(tmp_path / "none", interval_s=2.0, channels=["humidity"])
    with pytest.raises(SensorError, match="is not there"):
        driver.read()
    plug(tmp_path / "none", "dht22")
    with pytest.raises(SensorError, match=r"^interval_s must be 2\.1 or more"):
        driver.read()
    shutil.rmtree(tmp_path / "none")
    plug(tmp_path / "none", "bme280")
    assert driver.read().values == (46.927,)


class Kernel:
    """drivers/iio/humidity/dht11.c as far as time goes: a measurement takes 25 ms and is given
    again for 2 s. Its value is its number."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.measured = 0
        self.measured_at = -10.0

    def clock(self) -> float:
        return self.now

    def sleep(self, pause_s: float) -> None:
        self.now += pause_s

    def read(self, *_: object) -> float:
        if self.measured_at + 2.0 < self.now:
            self.now += 0.025
            self.measured += 1
            self.measured_at = self.now
        self.now += 0.0001
        return float(self.measured)


@given(
    st.floats(DHT11_INTERVAL_S, 4.0),
    st.lists(st.tuples(st.floats(0.0, 1.5), st.none() | st.floats(0.0, 2.0)), max_size=40),
)
def test_no_measurement_is_given_twice(
    interval_s: float, ticks: list[tuple[float, float | None]]
) -> None:
    """Ticks come late by up to 1.5 s, and others read the device in between."""
    kernel = Kernel()
    driver = Iio(str(FIXTURES / "dht22"), None, (), interval_s, kernel.clock, kernel.sleep)
    start, given_before = kernel.now, 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "read", kernel.read)
        for n, (late_s, other_s) in enumerate(ticks):
            kernel.now = max(kernel.now, start + n * interval_s + late_s)
            began = kernel.now
            measurement, again = driver.read().values
            assert measurement > given_before
            assert again == measurement
            assert kernel.now - began < interval_s
            given_before = measurement
            if other_s is not None:
                kernel.now += other_s
                kernel.read()


def test_at_the_shortest_interval_no_read_waits() -> None:
    kernel = Kernel()
    pauses: list[float] = []
    driver = Iio(str(FIXTURES / "dht22"), None, (), DHT11_INTERVAL_S, kernel.clock, pauses.append)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Device, "read", kernel.read)
        for n in range(1000):
            kernel.now = 1000.0 + n * DHT11_INTERVAL_S
            driver.read()
    assert not pauses
    assert kernel.measured == 1000


def test_the_kernel_names_its_dht11_by_overlay_or_by_device_tree() -> None:
    assert find(str(FIXTURES / "dht22"), None).dht11
    assert not find(str(FIXTURES / "si7020"), None).dht11
