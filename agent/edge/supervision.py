"""Supervision by systemd: readiness, watchdog pings, status line (sd_notify)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from agent.edge.rate_limited_log import ERROR, Reporter
from agent.edge.sampling.counters import SensorCounters
from agent.edge.watchdog import Watchdog, watchdog_s
from agent.runtime.systemd import notifier


def tell_where() -> None:
    """Dump every thread's stack on SIGABRT, the signal that systemd's watchdog kills with."""
    if "NOTIFY_SOCKET" in os.environ:
        import faulthandler

        faulthandler.enable()


class Supervision:
    """Notifies systemd, if that started this process; in any case reports sensors whose threads do
    not return.

    Call `turn` in the loop when `wake_at` (monotonic, s) is due. `status` returns the line that
    ``systemctl status`` shows.
    """

    def __init__(
        self,
        sensors: Iterable[SensorCounters],
        reporter: Reporter,
        status: Callable[[], str],
        now: float,
    ) -> None:
        sensors = tuple(sensors)
        self._sensors = tuple([counters.sensor for counters in sensors])
        self._reporter = reporter
        self._status = status
        self._said = ""
        self._systemd = notifier()
        wanted_s = watchdog_s(dict(os.environ), os.getpid()) if self._systemd else None
        self._watchdog = Watchdog(sensors, wanted_s, now)

    @property
    def wake_at(self) -> float:
        """When the next turn is due."""
        return self._watchdog.wake_at

    def ready(self) -> None:
        """Notify that the agent answers queries from now on."""
        self._notify("READY=1", f"STATUS={self._status()}")

    def stopping(self) -> None:
        """Notify that shutdown has begun."""
        self._notify("STOPPING=1", "STATUS=storing what was read")

    def turn(self, now: float) -> None:
        """Ping if all is well; otherwise systemd will kill and restart the process."""
        alive, late = self._watchdog.look(now)
        for sensor, since_s in late.items():
            self._reporter.complain(
                "stuck",
                f"sensor {sensor} has not come back for {since_s:.0f} s",
                priority=ERROR,
                sensor=sensor,
            )
        for sensor in self._sensors:
            if sensor not in late:
                self._reporter.recovered("stuck", f"sensor {sensor} is back", sensor=sensor)
        said = self._status()
        lines = [f"STATUS={said}"] if said != self._said else []
        self._said = said
        if alive:
            lines.append("WATCHDOG=1")
        if lines:
            self._notify(*lines)

    def close(self) -> None:
        """Close systemd's socket."""
        if self._systemd is not None and self._systemd.socket is not None:
            self._systemd.socket.close()

    def _notify(self, *lines: str) -> None:
        if self._systemd is not None:
            self._systemd.notify("\n".join(lines))
