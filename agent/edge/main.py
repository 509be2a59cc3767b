"""Entry point of `sanderling-edge`, the agent on a Pi: options, configuration, exit status."""

# ruff: noqa: PTH120 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from agent.edge import supervision
from agent.edge.clocks import boot_id
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.edge.history.recovery import reject
from agent.edge.journal import journal_of_stderr
from agent.edge.master_socket import keys_of
from agent.edge.node import EdgeNode
from agent.edge.pods.emulation import emulation_of
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.sensor import Sensor, close_sensors, open_sensors
from agent.runtime import console, systemd
from agent.runtime.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.runtime.signals import Start, StopSignal, log_beside
from agent.wire import config, edge_config
from sensors.base import Leave, SensorError, path_in

if TYPE_CHECKING:
    from agent.edge.actuators.thread import ActuatorThread


def _no_metrics(settings: config.Metrics) -> str | None:
    """Why metrics cannot be served as configured; None if they can."""
    if not settings.address:
        return None
    from agent.metrics.library import problem  # most nodes serve none

    return problem(settings)


def _check_triggers(settings: edge_config.EdgeConfig, sensors: tuple[Sensor, ...]) -> None:
    """ConfigError if a trigger does not fit these sensors."""
    if settings.trigger:
        from agent.edge.events.trigger_config import read_triggers  # most nodes have none

        read_triggers(settings.trigger, sensors)


def _actuator(
    settings: edge_config.EdgeConfig, folder: str, reporter: Reporter | None
) -> ActuatorThread | None:
    """The thread of the actuator, if there is one; without a reporter only a check. SensorError."""
    if not settings.actuator.driver:
        return None
    from agent.edge.actuators.registry import open_actuator  # most nodes have none
    from agent.edge.actuators.thread import ActuatorThread

    configured = settings.actuator
    opened = open_actuator(configured.driver, configured.options, folder, checking=reporter is None)
    if reporter is None:
        opened.close()
        return None
    return ActuatorThread(opened, lambda line: reporter.complain("actuator", f"actuator: {line}"))


def main() -> None:
    """Run the command."""
    given = options("sanderling-edge", sys.argv[1:])
    start = Start(background=given.background, log=log_beside(given.config))
    folder = os.path.dirname(given.config)
    settings = configuration(given.config, edge_config.EdgeConfig)
    history_path = path_in(folder, settings.history.path)
    if (wrong := systemd.problem() or _no_metrics(settings.metrics)) is not None:
        fail(f"{given.config}: {wrong}", UNUSABLE)
    try:
        keys = keys_of(settings, folder)
        reject(history_path)
        emulation_of(settings.pods.emulate, settings.node.name)
        leave: Leave = "sensor" if given.leave_sensors else ""
        sensors = open_sensors(settings.sensor, folder, checking=given.check, leave=leave)
        _check_triggers(settings, sensors)
        _actuator(settings, folder, None)
    except (config.ConfigError, HistoryError, SensorError) as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    if given.check:
        close_sensors(sensors)
        say_ok(given.config)
        return
    supervision.tell_where()
    reporter = Reporter(
        console.write,
        settings.node.name,
        time.monotonic,
        journal_of_stderr("sanderling-edge", os.environ.get("JOURNAL_STREAM")),
    )
    try:
        history = History(
            history_path,
            boot_id(),
            group_readings=settings.history.group_readings,
            commit_s=settings.history.commit_s,
            retention_s=settings.history.retention_s,
            retention_bytes=settings.history.retention_bytes,
            most_events=settings.events.most,
        )
        actuator = _actuator(settings, folder, reporter)
        node = EdgeNode(
            settings, sensors, history, reporter, keys, serves=start.serves, actuator=actuator
        )
        with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
            node.run(stop)
    except (HistoryError, OSError, SensorError) as error:
        fail(str(error), FAILED)


if __name__ == "__main__":
    main()
