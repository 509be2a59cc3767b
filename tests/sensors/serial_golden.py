"""The serial_line driver's captured bytes as text: one row a line, what it reads as."""

from __future__ import annotations

import tomllib
from pathlib import Path

import sensors.serial_line
from sensors.base import Options, SensorError
from sensors.quality.flags import names
from sensors.serial_line.inbox import Inbox
from sensors.serial_line.mapping import Layout, layout

FIXTURES = Path(sensors.serial_line.__file__).parent / "fixtures"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.raw"))


def sample_layout(name: str) -> Layout:
    """The layout of the sample configuration `name`."""
    sample = tomllib.loads((FIXTURES / f"{name}.toml").read_text())["sensor"][0]
    options = Options("serial_line", sample["options"], FIXTURES)
    options.path("port")
    options.count("baud", 9600)
    found = layout(options)
    options.finish()
    return found


def render(name: str) -> str:
    inbox = Inbox(sample_layout(name), name)
    inbox.opened()
    rows = []
    for line in (FIXTURES / f"{name}.raw").read_bytes().splitlines(keepends=True):
        inbox.arrived(line, 0.0)
        if inbox.has_news:
            try:
                rows.append(" ".join(map(str, inbox.take(0.0).values)))
            except SensorError as error:
                text = str(error).removeprefix(f"{name}: ")
                rows.append(f"{' '.join(names(error.flag))}: {text}")
        else:
            rows.append("-")
    return "\n".join(rows) + "\n"
