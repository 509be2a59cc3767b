"""Ctrl-C ends the process, its children and its threads, whatever they wait for."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fleet.spark.interrupts import DELETE_S, GRACE_S, LIMIT_S, LOOK_S, Interrupts

# A child that does not mind SIGTERM, and a thread that the end of a process waits for.
STUBBORN = """\
import signal, subprocess, sys, threading
from fleet.common import exits
from fleet.spark.interrupts import heard, scratch

CHILD = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"

def wait_in(place):
    if place == "joined":
        threading.Thread(target=threading.Event().wait).start()
        threading.Event().wait()
    elif place == "broken":
        try:
            threading.Event().wait()
        finally:
            raise OSError("want of memory")
    elif place == "deaf":
        while True:
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                pass

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with heard():
        child = subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True,
                                 stdout=subprocess.PIPE)
        child.stdout.readline()
        print(child.pid, scratch("ctrl-c-"), flush=True)
        wait_in(sys.argv[1])
except KeyboardInterrupt:
    sys.exit(exits.fail("interrupted", exits.INTERRUPTED))
"""


@pytest.mark.parametrize("place", ["joined", "broken", "deaf"])
def test_it_ends_with_one_line_and_without_its_children(place):
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        child, folder = process.stdout.readline().split()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "fleet: interrupted\n")
    with suppress(psutil.NoSuchProcess):  # nobody may have reaped it
        assert psutil.Process(int(child)).status() == psutil.STATUS_ZOMBIE
    assert not Path(folder).exists()


class Clock:
    """Time that passes only in pauses."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s

    def pause(self, seconds):
        self.now_s += seconds


def ended(alive_until_s, first_s=0.0):
    """What a child got that is there from `first_s` on, and when the process was cut off."""
    clock = Clock()
    got = []
    cut_off = []

    def others():
        return [7] if first_s <= clock.now_s - 100.0 < alive_until_s else []

    Interrupts().end(
        others,
        lambda: cut_off.append(clock.now_s - 100.0),
        kill=lambda group, number: got.append((group, number)),
        clock=clock,
        pause=clock.pause,
    )
    assert len(cut_off) == 1
    assert LIMIT_S <= cut_off[0] < 2.0
    return got


def test_a_child_is_asked_once_then_killed():
    assert ended(GRACE_S / 2) == [(7, signal.SIGTERM)]
    assert ended(GRACE_S + 2 * LOOK_S)[:2] == [(7, signal.SIGTERM), (7, signal.SIGKILL)]


def test_a_child_that_starts_late_is_ended_too():
    assert ended(LIMIT_S, first_s=GRACE_S + LOOK_S)[0] == (7, signal.SIGKILL)


def test_two_seconds_have_room_for_all_that_is_waited_for():
    """The cut-off, a look, the line of another thread, temporary files on a disk that stands
    still; what is left is for a busy machine."""
    assert LIMIT_S + LOOK_S + 2 * DELETE_S <= 1.8


def test_it_is_cut_off_when_its_children_cannot_be_found():
    clock, cut_off = Clock(), []

    def others():
        raise OSError("too many open files")

    with suppress(OSError):
        Interrupts().end(others, lambda: cut_off.append(clock()), clock=clock, pause=clock.pause)
    assert cut_off == [100.0]


# A command under `heard`, of which the clock of the cut-off passes in its pauses alone; it says how
# long it waited before the cut-off, and where its main thread was. What blocks does so for ever.
HELD = """\
import functools, os, signal, socket, sys, threading, time
from fleet.spark import interrupts

now_s = [0.0]

def pause(seconds):
    now_s[0] += seconds

def cut_off(self, real=interrupts.Interrupts.cut_off):
    # The injected clock runs ahead: the main thread comes to its wait first.
    held.wait()
    os.write(1, f"{now_s[0]:.2f}\\n".encode())
    real(self)

interrupts.Interrupts.cut_off = cut_off
interrupts.Interrupts.end = functools.partialmethod(
    interrupts.Interrupts.end, clock=lambda: now_s[0], pause=pause
)
held, never, lock = threading.Event(), threading.Event(), threading.Lock()
here, there = socket.socketpair()
lock.acquire()

def press():
    os.kill(os.getpid(), signal.SIGINT)
    never.wait()

def block(how):
    held.set()
    how()

HOLDS = {
    "a wait for Java": lambda: here.recv(1),
    "a lock": lock.acquire,
    "a pause of the stream": lambda: time.sleep(1e6),
}
signal.signal(signal.SIGINT, signal.default_int_handler)
place, how = sys.argv[1:]
with interrupts.heard():
    try:
        press()
    except KeyboardInterrupt:
        if place == "swallowed":
            block(HOLDS[how])
    finally:
        block(HOLDS[how])
"""
HOLDS = ("a wait for Java", "a lock", "a pause of the stream")


@pytest.mark.parametrize("how", HOLDS)
@pytest.mark.parametrize("place", ["swallowed", "in a context that closes"])
def test_nothing_holds_the_exit_past_the_cut_off(place, how):
    """By a clock that is passed in: the cut-off comes LIMIT_S after Ctrl-C, wherever the main
    thread is, and the process ends there."""
    done = subprocess.run(
        [sys.executable, "-c", HELD, place, how],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "fleet: interrupted\n")
    assert LIMIT_S <= float(done.stdout) <= LIMIT_S + LOOK_S + 0.01


def test_ctrl_c_that_is_ignored_stays_ignored():
    """As in a job that a shell has put into the background."""
    script = (
        "import os, signal\n"
        "from fleet.spark.interrupts import heard\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with heard():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "print('went on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


# The main thread leaves its last wait while the other thread deletes temporary files.
LATE = """\
import os, signal, sys, threading
from fleet.common import exits
from fleet.spark import interrupts

cut_off = threading.Event()
interrupts._children_in_sessions = lambda: []
interrupts._is_starting_one = lambda: not cut_off.wait()
interrupts._delete_scratch = lambda: (cut_off.set(), threading.Event().wait())
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with interrupts.heard():
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
except KeyboardInterrupt:
    sys.exit(exits.fail("interrupted", exits.INTERRUPTED))
"""


def test_a_main_thread_that_unwinds_as_it_is_cut_off_says_nothing_twice():
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "fleet: interrupted\n")


STARTS = """
import os, time
from fleet.spark import interrupts
held, release = os.pipe()
if not os.fork():
    os.close(release)
    os.read(held, 1)
    os.setsid()
    os.execv("/bin/sleep", ["sleep", "600"])
assert not interrupts._children_in_sessions()
assert interrupts._is_starting_one(), "a child before its own session is not seen"
os.close(release)
while not (found := interrupts._children_in_sessions()) or interrupts._is_starting_one():
    time.sleep(0.01)
os.killpg(found[0], 9)
os.wait()
assert not interrupts._is_starting_one()
"""


def test_a_child_that_is_about_to_begin_its_session_is_seen():
    subprocess.run([sys.executable, "-c", STARTS], check=True, timeout=120)
