"""Actuator driver `file`: the newest values as one line of a file, for another program to follow.

The file is replaced by a rename, so whoever reads it finds one whole line.
"""

# ruff: noqa: PTH105, PTH123 - pathlib takes 0.6 MiB of memory, on every node

from __future__ import annotations

import os

import msgspec

from agent.edge.actuators.base import ActuatorError, Output
from sensors.base import Options


class File:
    """Writes to `path` the value of `channel`, or all values as JSON if that is empty."""

    def __init__(self, path: str, channel: str) -> None:
        self._path = path
        self._channel = channel

    def put_out(self, output: Output) -> None:
        if not self._channel:
            line = msgspec.json.encode(output.values).decode()
        elif (value := output.values.get(self._channel)) is not None:
            line = f"{value:g}"
        else:
            return
        try:
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                file.write(f"{line}\n")
            os.replace(f"{self._path}.new", self._path)
        except OSError as error:
            raise ActuatorError(f"{self._path}: {error.strerror}") from None

    def close(self) -> None:
        pass


def open_driver(options: Options) -> File:
    path, channel = options.path("path"), options.text("channel") or ""
    options.finish()
    if path is None:
        raise options.error("path is missing")
    return File(path, channel)
