"""Real readers with a sensor that is none: what arrives, and that nothing is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sensors.base import ChecksumError, Reading, SensorError
from sensors.dht import process as processes
from sensors.dht.driver import DhtDriver
from sensors.dht.process import Process
from sensors.dht.protocol import Job
from sensors.dht.supervisor import CPU_WINDOW_S, END_S, FIRST_PAUSE_S
from sensors.registry import open_driver
from testkit.waiting import PATIENCE_S

FAKE = "tests.sensors.fake_dht"
# The first start only wakes a sensor; of the others, one comes in time to give a value, also on a
# machine that is busy elsewhere.
MANY = 20
VALUE = ",".join(["value"] * MANY)
RULE_S = 0.03
AGENT = f"""
import sys
from sensors.dht.driver import DhtDriver
from sensors.dht.protocol import Job
job = Job("{FAKE}:open_with_child", "dht22", sys.argv[1], sys.argv[2], "", 0.0, 0.03, 0.04)
driver = DhtDriver(job, cpu_share=0.5, power_after=0, power_off_s=0.0)
driver.check()
try:
    driver.read()
except Exception:
    pass
print(driver.reader, flush=True)
sys.stdin.read()
"""


class Clock:
    """The real clock, and what the test adds."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


Opener = Callable[..., DhtDriver]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> Iterator[Opener]:
    drivers = []

    def opener(
        script: str,
        *,
        factory: str = "open_sensor",
        child: str = "",
        power_pin: str = "",
        cpu_share: float = 1e9,
        checking: bool = True,
    ) -> DhtDriver:
        job = Job(f"{FAKE}:{factory}", "dht22", script, child, power_pin, 0.0, RULE_S, 0.04)
        driver = DhtDriver(job, cpu_share=cpu_share, power_after=3, power_off_s=0.01, clock=clock)
        drivers.append(driver)
        if checking:
            driver.check()
        return driver

    yield opener
    for driver in drivers:
        with suppress(Exception):  # a test that closed it has seen to it
            driver.close()


def at_once(driver: DhtDriver) -> Reading | SensorError:
    """What a read gives."""
    try:
        return driver.read()
    except SensorError as error:
        return error


def outcome(driver: DhtDriver) -> Reading | SensorError:
    """What a read gives after the reader wrote something or ended."""
    if driver._process is not None:
        driver._process.wait_for_line(PATIENCE_S)
    return at_once(driver)


def until(
    driver: DhtDriver, wanted: Callable[[Reading | SensorError], bool]
) -> Reading | SensorError:
    """The first outcome that is wanted."""
    give_up_at = time.monotonic() + PATIENCE_S
    found = at_once(driver)  # the first read lets the sensor start
    while time.monotonic() < give_up_at:
        if wanted(found):
            return found
        found = outcome(driver)
    raise AssertionError(f"not seen; the last was {found!r}")


def is_value(found: Reading | SensorError) -> bool:
    return isinstance(found, Reading)


def says(text: str) -> Callable[[Reading | SensorError], bool]:
    return lambda found: isinstance(found, SensorError) and text in str(found)


silent = says("not found")


def gone(fd: int) -> bool:
    """Whether the process of this pidfd has ended, after some patience; else it is ended here."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    ended = bool(poller.poll(PATIENCE_S * 1000))
    if not ended:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    os.close(fd)
    return ended


def fifo(folder: Path) -> Path:
    """A file whose reading returns when a start hangs."""
    path = folder / "child.stuck"
    os.mkfifo(path)
    return path


def test_values_arrive_once_and_in_order_with_their_age(opened: Opener) -> None:
    driver = opened("value")
    assert says("its first value is not there yet")(at_once(driver))
    begin_ms = time.monotonic() * 1000
    readings = [until(driver, is_value) for _ in range(20)]
    temperatures = [reading.values[0] for reading in readings if isinstance(reading, Reading)]
    assert temperatures == sorted(set(temperatures))
    elapsed_ms = time.monotonic() * 1000 - begin_ms
    for reading in readings:
        assert isinstance(reading, Reading)
        assert reading.values[1] == 50.0
        assert (
            RULE_S * 1000 - 1 <= reading.age_ms <= elapsed_ms + 1
        )  # measured a start, so a rule, before
    assert [channel.name for channel in driver.channels] == ["temperature", "humidity"]
    assert list(driver.preload()) == []


def test_the_same_value_is_never_given_twice(opened: Opener) -> None:
    driver, values = opened(f"{VALUE},silent"), []
    while isinstance(found := until(driver, lambda it: is_value(it) or silent(it)), Reading):
        values.append(found.values)
    assert values
    assert len(values) == len(set(values))
    for _ in range(5):
        assert silent(outcome(driver))
    assert not isinstance(at_once(driver), Reading)


def test_of_several_values_the_newest_is_given(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened("value")
    at_once(driver)
    lines = [b"measured 1 20.0 50.0", b"damaged Checksum", b"measured 2 21.0 51.0", b"silent No"]
    monkeypatch.setattr(driver._process, "lines", lambda: lines)
    assert driver.read().values == (21.0, 51.0)


def test_between_two_values_there_is_nothing_new(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = opened("hang")
    at_once(driver)
    lines = [b"measured 1 20.0 50.0"]
    monkeypatch.setattr(driver._process, "lines", lambda: [lines.pop()] if lines else [])
    assert is_value(at_once(driver))
    error = at_once(driver)
    assert type(error) is SensorError
    assert says("nothing new since the value before")(error)


def test_trains_of_pulses_pass_the_library_and_the_pipe(opened: Opener) -> None:
    driver = opened(",".join(["manual"] * MANY + ["half_a_frame"]), factory="open_played")
    seen = [until(driver, is_value), until(driver, says("full buffer was not returned"))]
    assert isinstance(seen[0], Reading)
    assert seen[0].values == (35.1, 65.2)
    assert isinstance(seen[1], ChecksumError)


def test_damage_is_a_checksum_error_while_it_lasts(opened: Opener) -> None:
    driver = opened(",".join(["value,damaged"] * MANY + ["silent"]))
    error = until(driver, lambda found: isinstance(found, ChecksumError) or is_value(found))
    assert is_value(error) or "full buffer" in str(error)
    assert type(until(driver, says("not found"))) is SensorError


def test_whatever_a_library_raises_is_one_line(opened: Opener) -> None:
    error = until(opened("broken"), says("KeyError"))
    assert "\n" not in str(error)
    assert str(error).startswith("broken: KeyError"), "the pin, and no driver: the log names it"


def test_what_a_library_prints_is_no_line(opened: Opener) -> None:
    driver = opened("print")
    reading = until(driver, is_value)
    assert isinstance(reading, Reading)
    assert reading.values[1] == 50.0
    assert driver.restarts == 0


def test_an_unusable_sensor_is_refused_by_a_check(opened: Opener) -> None:
    with pytest.raises(SensorError, match=r"^dht value: no pin D44; did you mean D4\?$"):
        opened("value", factory="refuse")


def test_an_unusable_sensor_keeps_no_agent_from_starting(opened: Opener) -> None:
    driver = opened("value", factory="refuse", checking=False)
    reader = driver.reader or 0
    until(driver, says("no pin D44; did you mean D4?"))
    driver.close()
    with pytest.raises(ChildProcessError):  # no zombie
        os.waitpid(reader, os.WNOHANG)


def test_a_reader_that_dies_is_started_again_after_a_pause(opened: Opener, clock: Clock) -> None:
    driver = opened(f"{VALUE},die")
    first, descriptors = driver.reader, len(list(Path("/proc/self/fd").iterdir()))
    error = until(driver, says("ended with status 7"))
    assert "started again in 1 s" in str(error)
    assert driver.reader is None
    assert says("ended with status 7")(outcome(driver))
    clock.ahead_s += FIRST_PAUSE_S
    outcome(driver)
    assert driver.restarts == 1
    assert driver.reader not in {first, None}
    until(driver, is_value)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_a_reader_that_ends_without_a_word_keeps_nobody_from_starting(opened: Opener) -> None:
    assert says("ended with status 9")(until(opened("value", factory="vanish"), says("status")))


@pytest.mark.parametrize("how", ["spin", "stubborn"])
def test_a_reader_that_spins_is_ended_and_reported(how: str, opened: Opener, clock: Clock) -> None:
    driver = opened(f"value,{how}", cpu_share=1e-9)
    at_once(driver)
    assert driver._process is not None
    process, reader = driver._process, os.pidfd_open(driver._process.pid)
    process.wait_for_line(PATIENCE_S)  # of the first start; the second one spins
    at_once(driver)
    used, give_up_at = process.cpu_s(), time.monotonic() + PATIENCE_S
    while process.cpu_s() < used + 0.05:
        assert time.monotonic() < give_up_at
    clock.ahead_s += CPU_WINDOW_S
    assert says("of a core")(at_once(driver))
    if how == "stubborn":
        clock.ahead_s += END_S
        at_once(driver)
    assert gone(reader)
    assert says("of a core")(at_once(driver))  # still what is told
    assert driver.reader is None
    clock.ahead_s += FIRST_PAUSE_S
    at_once(driver)
    assert driver.restarts == 1


def test_the_processor_time_of_children_counts(opened: Opener, tmp_path: Path) -> None:
    spinner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from subprocess import *; Popen(['sh', '-c', 'while :; do :; done']).wait()",
        ],
        process_group=0,
    )
    try:
        parent = object.__new__(Process)
        parent._pid = spinner.pid
        give_up_at = time.monotonic() + PATIENCE_S
        while parent.cpu_s() < 0.3:  # the parent itself waits
            assert time.monotonic() < give_up_at
    finally:
        os.killpg(spinner.pid, signal.SIGKILL)
        spinner.wait()


def test_power_is_cut_after_failures(opened: Opener, clock: Clock, tmp_path: Path) -> None:
    switches = tmp_path / "power"
    driver = opened("silent", power_pin=str(switches))
    until(driver, says("3 times in a row; its power is cut for 0.01 s"))
    assert switches.read_text() == "on\n"
    assert driver._process is not None
    assert gone(os.pidfd_open(driver._process.pid))
    at_once(driver)
    clock.ahead_s += FIRST_PAUSE_S
    until(driver, lambda found: str(found).endswith("not found, check wiring"))
    assert switches.read_text() == "on\noff\non\n"


def test_what_is_no_reader_is_ended(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    noise = "import os\nwhile True: os.write(1, b'x' * 5000)"
    monkeypatch.setattr(processes, "PROGRAM", noise)
    driver = opened("value")
    noisy = os.pidfd_open(driver.reader or 0)
    assert says("no greeting")(at_once(driver))
    assert gone(noisy)
    assert says("no greeting")(at_once(driver))
    assert driver.reader is None


@pytest.mark.parametrize("script", ["value", "hang", "stubborn"])
def test_closing_ends_the_reader_and_its_children(
    script: str, opened: Opener, tmp_path: Path
) -> None:
    numbers, stuck = tmp_path / "child", fifo(tmp_path)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    driver = opened(script, factory="open_with_child", child=str(numbers))
    at_once(driver)
    if script != "value":
        stuck.read_bytes()
    number = driver.reader or 0
    reader = os.pidfd_open(number)
    child = os.pidfd_open(int(numbers.read_text()))
    driver.close()
    assert driver.reader is None
    assert gone(reader)
    assert gone(child)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    with pytest.raises(ChildProcessError):  # no zombie
        os.waitpid(number, os.WNOHANG)


def test_a_reader_that_dies_leaves_no_children(opened: Opener, tmp_path: Path) -> None:
    numbers = tmp_path / "child"
    driver = opened("die", factory="open_with_child", child=str(numbers))
    child = os.pidfd_open(int(numbers.read_text()))
    until(driver, says("ended with status 7"))
    assert gone(child)


@pytest.mark.parametrize("script", ["value", "hang", "stubborn"])
def test_a_killed_agent_takes_its_reader_along(script: str, tmp_path: Path) -> None:
    """One that hangs takes the two seconds that it has for a clean end."""
    numbers, stuck = tmp_path / "child", fifo(tmp_path)
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, script, str(numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert agent.stdout is not None
    reader = os.pidfd_open(int(agent.stdout.readline()))
    child = os.pidfd_open(int(numbers.read_text()))
    if script != "value":
        stuck.read_bytes()
    agent.kill()
    agent.communicate()
    assert gone(reader)
    assert gone(child)


@pytest.mark.parametrize(
    ("options", "interval_s", "problem"),
    [
        ({}, 2.0, "give the pin"),
        ({"pin": "D4"}, 1.9, "interval_s must be 2 or more, and is 1.9"),
        ({"pin": "D4", "model": "am2302"}, 1.0, "a value every 2 s at most"),
        ({"pin": "D4", "model": "dht11"}, 0.5, "interval_s must be 1 or more"),
        ({"pin": "D4", "model": "dht23"}, 2.0, "did you mean dht22?"),
        ({"pin": "D4", "use_pulseio": "no"}, 2.0, "use_pulseio must be true or false"),
        ({"pin": "D4", "power_pin": "D4"}, 2.0, "both D4"),
        ({"pin": "D4", "power_pin": "D17", "power_off_s": 0}, 2.0, "power_off_s and power_after"),
        ({"pin": "D4", "cpu_share": 0}, 2.0, "cpu_share must be over 0"),
        ({"pni": "D4"}, 2.0, "did you mean pin?"),
    ],
)
def test_a_wrong_option_is_one_line(
    options: dict[str, object], interval_s: float, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(SensorError, match=problem.replace("?", r"\?")) as caught:
        open_driver("dht", options, tmp_path, interval_s)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("dht: ")


GPIOD = "__version__ = '2.3.0'\n"


@pytest.mark.parametrize("board", ["", "RASPBERRY_PI_4B", "RASPBERRY_PI_5", "NO_SUCH_BOARD"])
@pytest.mark.parametrize("gpiod", [False, True])
@pytest.mark.skipif(any(Path("/dev").glob("gpiochip*")), reason="this machine may have a header")
def test_without_a_header_it_says_what_is_missing(
    board: str, gpiod: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """gpiod, where it is there, is an empty module: what it lacks is an error of another kind."""
    if board:
        monkeypatch.setenv("BLINKA_FORCEBOARD", board)
    if gpiod:
        (tmp_path / "gpiod.py").write_text(GPIOD)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SensorError) as caught:
        open_driver("dht", {"pin": "D4"}, tmp_path, 2.0, checking=True)
    assert "\n" not in str(caught.value)
    wanted = "no /dev/gpiochip" if board else "no pin D4: Blinka knows no pin header on"
    assert str(caught.value).startswith(f"dht D4: {wanted}")


def test_without_the_package_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "adafruit_dht.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'adafruit_dht'\", name='adafruit_dht')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SensorError, match=r"is missing: pip install '\.\[drivers\]'"):
        open_driver("dht", {"pin": "D4"}, tmp_path, 2.0, checking=True)


def test_the_agent_imports_nothing_of_it() -> None:
    program = (
        "import sys\n"
        "from sensors.base import SensorError\n"
        "from sensors.registry import open_driver\n"
        "try: open_driver('dht', {'pin': 'D4'}, '.', 2.0, checking=True)\n"
        "except SensorError: pass\n"
        "print(*sorted({'adafruit_dht', 'board', 'subprocess', 'threading', 'socket'}\n"
        "              & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
