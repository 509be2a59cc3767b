"""Cost of an open console to the other classes: queries of one client beside it, and without.

A real fleet of one IAD, its nodes unloaded; the client asks for aggregates of a minute at a fixed
rate, whatever came back before, so that what waits counts. Slices with the console open (a browser
that reads its stream, so that the fleet is watched) and without take turns: a noisy moment of the
machine falls on both. Goal: p99 at most 2 % above that without. On a machine that others use, too,
`cpu_rise_percent` says more: the CPU time of master and nodes over the same queries.
"""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent.client import Client, NoReplyError
from agent.gateway import tokens
from agent.wire.messages import Query, Slo, Window
from bench.output import Result, result
from bench.processes import cpu_s
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.ports import free_ports
from fleet.testbed.testbed import Testbed

NODES = 8
TURNS = 4  # of both
SLICE_S = 12.0
# Before a slice counts: the watch begins with it, or has gone with the former.
SETTLE_S = 3.0
PER_S = 40.0
LINGER_S = 17.0  # the watch outlives its last looker for 15 s
GOAL = 1.02
PATIENCE_S = 60.0


def run() -> Iterable[Result]:
    """The results."""
    with (
        tempfile.TemporaryDirectory() as name,
        Testbed(part_of(building_fleet(), 1, NODES), Path(name) / "bed") as bed,
    ):
        for _ in bed.start():
            pass
        [iad] = bed.plan.iads
        folder, [port] = Path(name), free_ports(1)
        config = folder / "gateway.toml"
        config.write_text(
            f'[master]\naddresses = ["{bed.public(iad.name)}"]\n'
            f'[http]\nlisten = "127.0.0.1:{port}"\n'
        )
        token = tokens.create_token(str(folder / "access.json"), "bench", "viewer")
        command = [sys.executable, "-m", "agent.gateway.main", "--config", str(config)]
        with (
            subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as gateway,
            Client(bed.public(iad.name)) as client,
        ):
            assert gateway.stderr is not None
            while "listening" not in gateway.stderr.readline():
                assert gateway.poll() is None
            areas = [node.area for node in iad.nodes]
            agents = [bed.child(each).pid for each in (iad.name, *(n.name for n in iad.nodes))]
            found: dict[bool, list[float]] = {True: [], False: []}
            spent_s = {True: 0.0, False: 0.0}
            order = [False, True, True, False] * (TURNS // 2)
            for turn, is_open in enumerate(order):
                with socket.socket() as browser:
                    if is_open:
                        browser.connect(("127.0.0.1", port))
                        browser.sendall(
                            b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                            b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
                        )
                    spent_s[is_open] -= sum(map(cpu_s, agents))
                    found[is_open] += asked(client, areas, browser if is_open else None)
                    spent_s[is_open] += sum(map(cpu_s, agents))
                if is_open and order[turn + 1 : turn + 2] != [True]:
                    time.sleep(LINGER_S)
            gateway.terminate()
            gateway.wait(PATIENCE_S)
    with_it, without = p99(found[True]), p99(found[False])
    yield result(
        "gateway: p99 of other queries, console open", with_it, "ms", "closed", without,
        least_ratio=1 / GOAL,
        without=round(1e3 * without, 2), rise_percent=round(100 * (with_it / without - 1), 1),
        cpu_rise_percent=round(100 * (spent_s[True] / spent_s[False] - 1), 1),
        queries=len(found[True]), p50=round(1e3 * median(found[True]), 2),
        p50_without=round(1e3 * median(found[False]), 2),
    )  # fmt: skip


def asked(client: Client, areas: list[str], browser: socket.socket | None) -> list[float]:
    """Seconds of each query of a slice, from when it was due."""
    due_s = begin_s = time.monotonic()
    waiting: dict[str, float] = {}
    taken: list[float] = []
    number = 0
    if browser is not None:
        browser.setblocking(False)
    while due_s < begin_s + SETTLE_S + SLICE_S or waiting:
        now_s = time.monotonic()
        assert now_s < begin_s + SETTLE_S + SLICE_S + PATIENCE_S, "an answer is missing"
        if now_s >= due_s and due_s < begin_s + SETTLE_S + SLICE_S:
            number += 1
            query_id = f"{begin_s:.3f}-{number}"
            area = areas[number % len(areas)]
            client.send(
                Query(
                    query_id, (area,), Window(last_s=60.0), Slo(99.0, 1_000.0), (), "aggregate",
                    service="default",
                )
            )  # fmt: skip
            waiting[query_id] = due_s
            due_s += 1.0 / PER_S
        with suppress(NoReplyError):
            answer = client.receive(1e3 * max(0.0, min(due_s - time.monotonic(), 0.05)))
            since_s = waiting.pop(answer.id)
            assert answer.status == "complete", answer
            if since_s >= begin_s + SETTLE_S:
                taken.append(time.monotonic() - since_s)
        if browser is not None:
            with suppress(BlockingIOError):
                while browser.recv(1 << 18):
                    pass
    return taken


def p99(times: list[float]) -> float:
    """The 99th percentile."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


def median(times: list[float]) -> float:
    """The median."""
    return sorted(times)[len(times) // 2]
