"""Actuator thread: gives the newest output to the driver, however long that takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from agent.edge.actuators.base import Actuator, ActuatorError, Output
from sensors.base import reason_of

PATIENCE_S: Final = 3.0  # at shutdown, for an output in progress


class ActuatorThread:
    """Any thread may call `put`. `complain` gets a line for each output that failed."""

    def __init__(self, actuator: Actuator, complain: Callable[[str], object]) -> None:
        self._actuator = actuator
        self._complain = complain
        self._changed = threading.Condition()
        self._newest: Output | None = None
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="actuator", daemon=True)
        self._thread.start()

    def put(self, output: Output) -> None:
        """Put this out as soon as the driver is free, unless a newer one comes before that."""
        with self._changed:
            self._newest = output
            self._changed.notify()

    def close(self) -> None:
        """Put out what waits, and close the driver; one that does not return stays open."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while (output := self._next()) is not None:
            self._have(self._actuator.put_out, output)
        self._have(self._actuator.close)

    def _have(self, work: Callable[..., object], *given: Output) -> None:
        try:
            work(*given)
        except BaseException as error:  # noqa: BLE001 - a driver's mistake must not end the thread
            self._complain(reason_of(error, ActuatorError))

    def _next(self) -> Output | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ends or self._newest is not None)
            output, self._newest = self._newest, None
        return output
