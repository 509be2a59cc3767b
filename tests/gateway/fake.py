"""A gateway of a fleet that is made up: no master, no node; the page, HTTP and streams are real.

    .venv/bin/python -m tests.gateway.fake --port 8080 --areas 12

prints a link that opens the page as an operator. Values move, one area is stale, one bad, and an
alert comes now and then.
"""

import argparse
import asyncio
import math
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from agent.client import NoReplyError
from agent.gateway import tokens
from agent.gateway.config import GatewayConfig
from agent.gateway.http.server import Server
from agent.wire.about import About, ChannelInfo, ServiceInfo
from agent.wire.areas import covers
from agent.wire.buckets import Buckets, ChannelBuckets, grid_of
from agent.wire.config import parse
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    TaskReport,
)
from agent.wire.operator import IadStatus, NodeStatus
from agent.wire.overlay import Notification, Origin
from agent.wire.packed import Float32Column, UInt32Column
from agent.wire.placement import PlacementReport
from agent.wire.push import Gap, Notified
from agent.wire.watches import Round

CHANNELS = {"temperature": ("celsius", 21.0, 2.0), "humidity": ("percent", 42.0, 6.0)}


class FakeFleet:
    """What a fleet would answer, at the time of the clock `now_ms`."""

    def __init__(self, areas=4, *, now_ms=tokens.wall_ms):
        self.areas = {
            f"b1/f{1 + n // 10}/r{n:03}": f"Meeting {1 + n // 10}.{n:02}" for n in range(areas)
        }
        self.now_ms = now_ms
        self.iads = {}  # area → IAD, if not iad1
        self.down = set()  # areas whose node is down
        self.bad = set()  # areas whose values are bad
        self.raised = {}  # what the master tells: areas, and their raised triggers
        self.silent = set()  # IADs whose operator sockets say nothing
        self.is_away = False
        self.refusal = None  # (reason, message) for every query
        self.services = ()  # instead of one for all areas
        self.alerts = []  # what is kept for the durable subscription: position is the place + 1
        self.acknowledged = 0
        self.watches = 0  # open now
        self.watched = 0  # opened ever
        self.queries = []
        self.rounds = SimpleQueue()  # with every_s = inf: a round for each thing in it
        self.every_s = None
        self.more = threading.Condition()
        self.hold = threading.Event()  # queries wait for it
        self.hold.set()

    def value(self, area, channel, at_ms):
        _, mean, swing = CHANNELS[channel]
        place = sum(map(ord, area))
        return round(mean + swing * math.sin(at_ms / 6e5 + place) + place % 7 / 5, 2)

    def _aggregate(self, area, at_ms):
        channels = {}
        for name in CHANNELS:
            if area in self.bad and name == "temperature":
                channels[name] = ChannelAggregate(0, bad=5)
            else:
                value = self.value(area, name, at_ms)
                channels[name] = ChannelAggregate(
                    5, value - 0.1, value, value + 0.1, last=value, last_ms=at_ms
                )
        return AreaResult(
            area, aggregate=Aggregate(at_ms - 5_000, at_ms, channels), name=self.areas[area]
        )

    def answer(self, asked, form="aggregate", window=None, query_id="q", buckets=None, channels=()):
        if self.refusal is not None:
            reason, message = self.refusal
            return Answer(
                query_id, "refused", 0.1, False, Coverage(0, 0), reason=reason, message=message
            )
        now_ms = self.now_ms()
        found = [area for area in self.areas if any(covers(each, area) for each in asked)]
        there = [area for area in found if area not in self.down]
        missing = [Missing(area, "node_down") for area in found if area in self.down]
        missing += [
            Missing(each, "no_node")
            for each in asked
            if not any(covers(each, area) for area in self.areas)
        ]
        if form == "buckets":
            results = [self._buckets(area, window, buckets, channels) for area in there]
        else:
            results = [self._aggregate(area, now_ms) for area in there]
        covered = Coverage(len(results), len(results) + len(missing))
        iads = sorted({self.iads.get(area, "iad1") for area in found or [""]})
        tasks = tuple(TaskReport(iad, 99.5, 400.0, covered, 11.0) for iad in iads)
        return Answer(
            query_id, "partial" if missing else "complete", 12.5, not missing, covered,
            tuple(results), tuple(missing), tasks,
        )  # fmt: skip

    def _buckets(self, area, window, number, channels):
        start_ms, end_ms = window.bounds_ms(self.now_ms())
        length_ms = max(1, -(-(end_ms - start_ms) // number))
        grid = grid_of(start_ms, end_ms, length_ms, relative=window.last_s is not None)
        made = {}
        for name in [each for each in CHANNELS if not channels or each in channels]:
            means = [
                self.value(area, name, grid.start_ms + n * length_ms) for n in range(grid.number)
            ]
            made[name] = ChannelBuckets(
                UInt32Column.of([60] * grid.number),
                Float32Column.of([each - 0.3 for each in means]),
                Float32Column.of(means),
                Float32Column.of([each + 0.3 for each in means]),
            )
        return AreaResult(area, buckets=Buckets(grid.start_ms, length_ms, made))

    def raise_alert(self, area, *, kind="raised", trigger="hot", value=31.5, at_ms=None):
        with self.more:
            number = len(self.alerts) + 1
            attributes = {
                "iad": "iad1", "kind": kind, "trigger": trigger, "metric": "temperature",
                "value": value, "area": area,
            }  # fmt: skip
            self.alerts.append(
                Notification(
                    Origin("iad1", f"h-{area}"[:64], number),
                    self.now_ms() if at_ms is None else at_ms,
                    attributes,
                )
            )
            self.more.notify_all()

    # --- what `Connections` is for a gateway --------------------------------------------------

    def client(self):
        return FakeClient(self)

    def operator(self, number=0):
        return FakeOperator(self, number)


class FakeClient:
    """As much of a client as a gateway uses."""

    def __init__(self, fleet):
        self.fleet = fleet

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    def _reach(self):
        if self.fleet.is_away:
            raise NoReplyError("no reply from tcp://127.0.0.1:1 within 1.0 s")

    def about(self, areas=("*",), **_):
        self._reach()
        channels = tuple(ChannelInfo(name, unit) for name, (unit, _, _) in CHANNELS.items())
        results = tuple(
            AreaResult(area, about=About(channels, self.fleet.raised.get(area, ()), 500), name=name)
            for area, name in self.fleet.areas.items()
            if area in areas or areas == ("*",)
        )
        everywhere = tuple({area.split("/")[0] for area in self.fleet.areas})
        services = tuple(self.fleet.services) or (ServiceInfo("default", areas=everywhere),)
        covered = Coverage(len(results), len(results))
        return Answer("q", "complete", 0.2, True, covered, results, services=services)

    def answer_to(self, query, timeout_ms):
        more = {name: getattr(query, name) for name in ("service", "label", "stale_ok")}
        return self.query(
            query.areas, form=query.form, window=query.window, buckets=query.buckets,
            channels=query.channels, timeout_ms=timeout_ms, **more,
        )  # fmt: skip

    def query(self, areas, *, form="series", window=None, buckets=None, channels=(), **more):
        self.fleet.queries.append({"areas": areas, "form": form, **more})
        self.fleet.hold.wait()
        self._reach()
        form = "aggregate" if form == "series" else form
        return self.fleet.answer(areas, form, window, buckets=buckets, channels=channels)

    def watch(self, areas, *, interval_s, **_):
        self._reach()
        return FakeRounds(self.fleet, areas, self.fleet.every_s or interval_s)

    def subscribe(self, wanted, *, id, durable, after, patience_s):  # noqa: A002
        self._reach()
        assert durable
        return FakeNotifications(self.fleet, after)


class FakeRounds:
    def __init__(self, fleet, areas, every_s):
        self.fleet, self.areas, self.every_s = fleet, areas, every_s
        self.number = 0
        self.due_s = time.monotonic() + every_s
        self.on_word = None
        fleet.watches += 1
        fleet.watched += 1

    def wait(self, timeout_s):
        if self.fleet.is_away:
            raise NoReplyError("no word from the master")
        if math.isinf(self.every_s):
            try:
                self.fleet.rounds.get(timeout=timeout_s)
            except Empty:
                return None
        else:
            time.sleep(max(0.0, min(timeout_s, self.due_s - time.monotonic())))
            if time.monotonic() < self.due_s:
                return None
            self.due_s += self.every_s
        self.number += 1
        answer = self.fleet.answer(self.areas)
        return Round("w", self.number, self.number - 1, 0, self.fleet.now_ms(), answer)

    def cancel(self, timeout_ms=0):
        self.fleet.watches -= 1


class FakeNotifications:
    is_delivering = True

    def __init__(self, fleet, after):
        self.fleet = fleet
        self.on_word = None
        self.after = fleet.acknowledged if after is None else after
        self.taken = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._take()

    def _take(self):
        if self.taken is not None:
            self.after = self.fleet.acknowledged = self.taken
            self.taken = None

    def wait(self, timeout_s):
        self._take()
        with self.fleet.more:
            self.fleet.more.wait_for(
                lambda: len(self.fleet.alerts) > self.after or self.fleet.is_away, timeout_s
            )
            if self.fleet.is_away:
                raise NoReplyError("no word from the master")
            if len(self.fleet.alerts) <= self.after:
                return None
            self.taken = self.after + 1
            found = self.fleet.alerts[self.after]
            if found is None:
                return Gap("s", self.taken, self.taken)
            return Notified("s", self.taken, found)


class FakeOperator:
    def __init__(self, fleet, number):
        self.fleet = fleet
        self.iad = f"iad{number + 1}"

    def close(self):
        pass

    def _reach(self):
        if self.fleet.is_away or self.iad in self.fleet.silent:
            raise NoReplyError("no reply")

    def status(self, _timeout_ms=0):
        self._reach()
        nodes = tuple(
            NodeStatus(
                f"n{number}", "lost" if area in self.fleet.down else "live", (area,), 1, 1,
                number % 3, 100, "",
            )
            for number, area in enumerate(self.fleet.areas)
        )  # fmt: skip
        return IadStatus(self.iad, "edfq", nodes, (), 0, 0, {})

    def ask_placement(self, request, _timeout_ms=0):
        self._reach()
        return PlacementReport(request.id, True, self.iad)


class FakeStop:
    """What a signal would do."""

    def __init__(self):
        self._read, self._write = os.pipe()
        self.requested = False

    @property
    def filenos(self):
        return (self._read,)

    def woken(self, fileno):
        os.read(fileno, 100)

    def request(self):
        self.requested = True
        os.write(self._write, b"x")

    def close(self):
        os.close(self._read)
        os.close(self._write)


class FakeGateway:
    """A real gateway over a fleet that is made up, in a thread: a context manager."""

    def __init__(self, folder, fleet=None, *, listen="127.0.0.1:0", linger_s=0.0, **sections):
        self.fleet = fleet or FakeFleet()
        self.said = []
        sections.setdefault("operator", {"address": "tcp://127.0.0.1:1"})
        http = sections.setdefault("http", {})
        if listen.endswith(":0"):
            from fleet.testbed.ports import free_ports

            listen = f"127.0.0.1:{free_ports(1)[0]}"
        http.setdefault("listen", listen)
        self.config = parse(sections, GatewayConfig, "gateway.toml")
        self.folder = Path(folder)
        self.port = self.config.http.port
        self.linger_s = linger_s
        self._stop = FakeStop()
        self._ready = threading.Event()
        self.error = None

    @property
    def access(self):
        return str(self.folder / self.config.access.file)

    def token(self, role="operator", name=None, **options):
        return tokens.create_token(self.access, name or role, role, **options)

    def __enter__(self):
        self.server = Server(self.config, self.folder, self.said.append, connections=self.fleet)
        made = self.server._made

        def kept():
            self.gateway = made()
            self.gateway.hub._linger_s = self.linger_s
            return self.gateway

        self.server._made = kept
        self.loop = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()
        if self.error is not None:
            self.__exit__()
            raise self.error
        return self

    def _run(self):
        async def serve():
            self.loop = asyncio.get_running_loop()
            await self.server._serve(self._stop, self._ready.set)

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.error = error
        finally:
            self._ready.set()

    def stop(self):
        self._stop.request()
        self._thread.join()

    def __exit__(self, *_):
        if self._thread.is_alive():
            self.stop()
        self.server.close()
        self._stop.close()

    def in_loop(self, call):
        """The result of `call` in the gateway's loop."""

        async def run():
            return call()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--areas", type=int, default=12)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--alert-every", type=float, default=20.0)
    given = parser.parse_args()
    fleet = FakeFleet(given.areas)
    names = list(fleet.areas)
    fleet.down.add(names[-1])
    fleet.bad.add(names[0])
    with (
        tempfile.TemporaryDirectory() as folder,
        FakeGateway(
            folder, fleet, listen=f"127.0.0.1:{given.port}", console={"every_s": given.every}
        ) as made,
    ):
        code = tokens.create_link(made.access, "operator")
        sys.stdout.write(f"http://127.0.0.1:{given.port}/login?code={code}\n")
        sys.stdout.write(f"token: {made.token()}\n")
        sys.stdout.flush()
        kinds = iter(range(1_000_000))
        while True:
            number = next(kinds)
            kind = "raised" if number % 3 != 2 else "cleared"
            fleet.raise_alert(names[number // 3 % len(names)], kind=kind)
            if signal.sigtimedwait({signal.SIGINT, signal.SIGTERM}, given.alert_every):
                return


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
