"""Real worker processes: whatever user code does, it goes down alone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from agent.processing.events import Checkpoint, Remove, TakeCheckpoint
from agent.processing.printed import MAX_LINES
from tests.master.worker_rig import Workers, package

ROOT = Path(__file__).parents[3]
CODE = """
import multiprocessing, os, subprocess, sys, threading, time

def echo(message, state):
    state["n"] = state.get("n", 0) + message["n"]
    yield {"sum": state["n"], "zmq": "zmq" in sys.modules}

def bad(message, state, *, way="raises"):
    if message["n"] == 2:
        WAYS[way]()
    return [{"n": message["n"]}]

def raises():
    raise ValueError("no\\nsuch luck")

def rambles():
    raise ValueError("on and " * 1000)

def hangs():
    while True:
        time.sleep(1)

def spins():
    while True:
        pass

def leaks():
    kept = []
    while True:
        kept.append(bytes(2**20))

HOARD = []

def hoards():
    HOARD.append(b"x" * 40 * 2**20)

def prints():
    for i in range(200):
        print("line", i)
    sys.stderr.write("also this\\n")
    os.write(1, b"x" * 100_000)

def forks():
    os.fork()

def starts():
    subprocess.run(["true"])

def spawns():
    multiprocessing.get_context("spawn").Process(target=print).start()

def garbles():
    raise ValueError("\\x1b[2J\\ud800")

def exits():
    sys.exit(3)

def dies():
    os._exit(3)

def kills():
    os.kill(os.getppid(), 9)

def babbles():
    for fd in range(3, 4096):
        try:
            os.write(fd, b"\\xff" * 100)
        except OSError:
            pass

def nests():
    body = b"\\x97\\xa6Failed\\x01\\x02\\xa1t\\x00\\xc2" + b"\\x91" * 90_000 + b"\\xc0"
    for fd in range(3, 4096):
        try:
            os.write(fd, len(body).to_bytes(4, "big") + body)
        except OSError:
            pass

def promises():
    for fd in range(3, 4096):
        try:
            os.write(fd, (60 * 2**20).to_bytes(4, "big") + b"\\x97")
        except OSError:
            pass
    hangs()

def closes():
    os.closerange(3, 4096)

WAYS = {name: thing for name, thing in globals().items() if callable(thing)}

def nonsense(message, state):
    return [{"value": object()}] if message["n"] == 2 else ({"n": n} for n in iter(int, 1))

def bad_state(message, state):
    state["lock"] = threading.Lock()

def odd_keys(message, state):
    state[5] = 1

def swells(message, state, *, where="state"):
    much = {"much": "x" * 500_000}
    if where == "state":
        state.update(much)
    return [much] if where == "outputs" else []
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    folder = package(
        tmp_path,
        CODE,
        echo="acme:echo",
        bad="acme:bad",
        nonsense="acme:nonsense",
        bad_state="acme:bad_state",
        odd_keys="acme:odd_keys",
        swells="acme:swells",
        absent="acme_absent:process",
        three="acme:WAYS.get",
        uncallable="acme:CODE",
    )
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def workers(acme):
    made = Workers()
    yield made
    pids = list(made.pool.pids.values())
    made.pool.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# What is told, by what the processor does at its second message.
RAISES = {
    "raises": "ValueError: no such luck (acme.py, line 14)",
    "forks": "PermissionError: a processor must not start or signal processes (os.fork)",
    "starts": "PermissionError: a processor must not start or signal processes (subprocess.Popen)",
    "spawns": "PermissionError: a processor must not start or signal processes (fork_exec)",
    "garbles": "ValueError: [2J (acme.py",
    "kills": "PermissionError: a processor must not start or signal processes (os.kill)",
    "exits": "SystemExit: 3",
    "rambles": "on and on… (acme.py, line 17)",
}
ENDS = {
    "hangs": "it took more than",
    "spins": "its worker took more CPU time than is allowed",
    "leaks": "it found no more memory",
    "dies": "its worker ended with status 3",
    "babbles": "its worker wrote what is no answer",
    "nests": "its worker wrote what is no answer",
    # Of which the master would keep what came.
    "promises": "its worker wrote what is no answer",
    "closes": "its worker",
}


def go_down(workers, ways, **limits):
    """Each way is a processor's; another one shares the worker with them."""
    workers.create("other", "echo")
    workers.send("other", 1, n=10)
    for way in ways:
        workers.create(way, "bad", parameters={"way": way}, attempts=1, **limits)
        workers.send(way, 1, n=1)
    workers.run_until(lambda: all(workers.emits(name) for name in ("other", *ways)))
    for way in ways:
        workers.send(way, 2, n=2)
        workers.send(way, 3, n=3)
    workers.send("other", 2, n=5)
    # The message is skipped, and all go on with the next.
    workers.run_until(lambda: all(len(workers.emits(name)) == 2 for name in ("other", *ways)))
    assert workers.emits("other")[1].outputs == ({"sum": 15, "zmq": False},)
    assert workers.reports("other") == []
    for way in ways:
        assert ways[way] in workers.reports(way)[0]
        assert workers.emits(way)[1].outputs == ({"n": 3},)
        assert workers.state(way) == "ready"


def test_who_raises_goes_down_alone(workers):
    go_down(workers, RAISES)


@pytest.mark.parametrize("way", ENDS)
def test_who_ends_its_worker_goes_down_alone(workers, way):
    limits = {"hangs": {"wall_s": 15.0}, "spins": {"cpu_s": 0.1}}.get(way, {})
    go_down(workers, {way: ENDS[way]}, **limits)


def test_what_cannot_be_built_is_one_line(workers):
    said = {
        "absent": "absent (of package acme) cannot be imported: ModuleNotFoundError: No module",
        "unheard": "unknown processor unheard; known: ",
        "threshhold": "unknown processor threshhold; did you mean threshold?",
        "uncallable": "uncallable (of package acme) cannot be imported: AttributeError",
        "bad": "bad: unknown key wey; did you mean way?",
    }
    for processor in said:
        given = {"wey": 1} if processor == "bad" else {}
        workers.create(f"t_{processor}", processor, parameters=given)
    workers.run_until(lambda: all(workers.reports(f"t_{processor}") for processor in said))
    for processor, line in said.items():
        (found,) = workers.reports(f"t_{processor}")
        assert line in found
        assert "\n" not in found


def test_nonsense_is_one_line(workers):
    workers.create("t", "nonsense", outputs=3)
    workers.send("t", 1, n=2)
    workers.run_until(lambda: workers.reports("t"))
    assert workers.reports("t")[0].startswith(
        "its outputs are not publishable: TypeError: Encoding objects of type object"
    )
    workers.create("endless", "nonsense", outputs=3)
    workers.send("endless", 1, n=1)
    workers.run_until(lambda: workers.reports("endless"))
    assert "it gave 4 outputs for one message; at most 3" in workers.reports("endless")[0]
    workers.create("state", "bad_state", checkpoint_messages=1)
    workers.send("state", 1, n=1)
    workers.run_until(lambda: workers.reports("state"))
    assert workers.reports("state")[0].startswith("its state cannot be kept: TypeError")
    workers.create("odd", "odd_keys", checkpoint_messages=1)
    workers.send("odd", 1, n=1)
    workers.run_until(lambda: workers.reports("odd"))
    assert workers.reports("odd")[0].startswith("its state cannot be kept: ValidationError")


def test_what_is_too_large_is_one_line(workers):
    limits = {"state_bytes": 10_000, "output_bytes": 20_000, "checkpoint_messages": 1}
    for where in ("state", "outputs"):
        workers.create(where, "swells", parameters={"where": where}, **limits)
        workers.send(where, 1, n=1)
        workers.run_until(lambda name=where: workers.reports(name))
    said = [workers.reports(where)[0] for where in ("state", "outputs")]
    assert said[0].startswith("its state takes 500011 bytes; at most 10000 are allowed; it is")
    assert said[1].startswith("its outputs take 500012 bytes; at most 20000 are allowed; it is")


def test_who_keeps_memory_goes_down_alone_and_repeats_nothing(workers):
    workers.create("other", "echo")
    workers.create("t", "bad", parameters={"way": "hoards"}, memory_bytes=16 * 2**20)
    for n in (1, 2, 3):
        workers.send("t", n, n=n)
        workers.send("other", n, n=n)
    workers.run_until(lambda: len(workers.emits("t")) == len(workers.emits("other")) == 3)
    assert "MiB of memory; at most 16 MiB are allowed" in workers.reports("t")[0]
    assert workers.reports("other") == []
    (status,) = [s for s in workers.processing.status(time.monotonic()) if s.processor == "t"]
    assert (status.counters.failed, status.counters.replayed) == (1, 0)


def test_what_is_printed_is_told_but_not_all(workers):
    workers.create("t", "bad", parameters={"way": "prints"})
    for n in (1, 2, 3):
        workers.send("t", n, n=n)
    workers.run_until(lambda: len(workers.emits("t")) == 3)
    workers.run_until(lambda: len(workers.said) >= MAX_LINES)
    assert workers.said[0] == "processor t printed: line 0\n"
    assert len(workers.said) <= MAX_LINES + 1
    assert workers.reports("t") == []


def test_state_survives_its_worker(workers):
    workers.create("t", "echo", checkpoint_messages=2)
    for n in (1, 2, 3, 4, 5):
        workers.send("t", n, n=n)
    workers.run_until(lambda: len(workers.emits("t")) == 5 and len(workers.saves("t")) == 2)
    (pid,) = workers.pool.pids.values()
    os.kill(pid, signal.SIGKILL)
    workers.send("t", 6, n=6)
    workers.run_until(lambda: len(workers.emits("t")) == 6)
    assert workers.emits("t")[-1].outputs[0]["sum"] == 21
    assert [e.position for e in workers.emits("t")] == [1, 2, 3, 4, 5, 6]


def test_a_large_state_goes_to_a_worker_and_back(workers):
    state = msgspec.msgpack.encode({"n": 7, "ballast": bytes(8 * 2**20)})
    workers.create("large", "echo", checkpoint=Checkpoint(4, 4, state), state_bytes=64 * 2**20)
    workers.send("large", 5, n=1)
    workers.run_until(lambda: workers.emits("large"))
    workers.pool.handle(TakeCheckpoint("large"))
    workers.run_until(lambda: workers.saves("large"))
    assert workers.emits("large")[0].outputs[0]["sum"] == 8
    assert len(workers.saves("large")[0].checkpoint.state) == len(state)


MASTER = """
import sys, time
from tests.master.worker_rig import Workers
workers = Workers()
workers.create("t", "bad", parameters={"way": "hangs"})
workers.send("t", 1, n=1)
workers.run_until(lambda: workers.emits("t"))
workers.send("t", 2, n=2)
print(*workers.pool.pids.values(), flush=True)
sys.stdin.read()
"""


def test_workers_end_with_their_master_even_if_they_hang(acme):
    with subprocess.Popen(
        [sys.executable, "-c", MASTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as master:
        worker = os.pidfd_open(int(master.stdout.readline()))
        try:
            master.kill()
            poller = select.poll()
            poller.register(worker, select.POLLIN)
            assert poller.poll(60_000)
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)
            os.close(worker)


def test_a_worker_that_cannot_be_started_is_tried_again(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    workers = Workers()
    workers.run_until(lambda: workers.reports(""))
    assert workers.reports("") == [
        "a worker cannot be started: No such file or directory at its start; another follows in 1 s"
    ]
    assert workers.processing.next_due <= time.monotonic() + 1.0
    workers.pool.close()


def test_a_pool_that_was_closed_takes_nothing_more(workers):
    """What a master writes at its end lets topics move on or end: it ended with KeyError."""
    workers.create("sum", "echo")
    workers.send("sum", 1, n=1)
    workers.run_until(lambda: workers.emits("sum"))
    workers.pool.close()
    workers.send("sum", 2, n=2)
    workers.pool.handle(Remove("sum"))
    assert workers.pool.pids == {}
