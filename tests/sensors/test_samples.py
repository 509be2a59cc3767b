"""The sample configurations in the drivers' READMEs are configurations, and their options are the
drivers' own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sensors
from agent.wire.edge_config import EdgeSensor
from sensors import _template
from sensors.base import Driver, Options
from sensors.registry import DRIVERS, open_driver

FOLDER = Path(sensors.__file__).parent


def samples() -> Iterator[tuple[str, str]]:
    for name in ("_template", *DRIVERS):
        for n, block in enumerate(re.findall(r"```toml\n(.*?)```", readme(name), re.DOTALL)):
            yield f"{name}-{n}", block
        for path in sorted((FOLDER / name).glob("fixtures/*.toml")):
            yield f"{name}-{path.stem}", path.read_text()


def readme(name: str) -> str:
    path = FOLDER / name / "README.md"
    return path.read_text() if path.exists() else ""


SAMPLES = dict(samples())


@pytest.mark.parametrize("name", [name for name in SAMPLES if not name.startswith("dht")])
def test_a_sample_is_a_configuration_that_opens(name: str, tmp_path: Path) -> None:
    for table in tomllib.loads(SAMPLES[name])["sensor"]:
        given = msgspec.convert(table, EdgeSensor)
        options: dict[str, Any] = dict(given.options)
        if "port" in options:
            options["port"] = str(tmp_path / "none")  # or this machine's own port were opened
        driver: Driver
        if given.driver in DRIVERS:
            driver = open_driver(given.driver, options, tmp_path, given.interval_s)
        else:
            driver = _template.open_driver(Options(given.driver, options, tmp_path))
        assert driver.channels
        driver.close()


@pytest.mark.parametrize("name", ["_template", *DRIVERS])
def test_a_readme_has_what_every_readme_has(name: str) -> None:
    headings = re.findall(r"^##? (.*)$", readme(name), re.MULTILINE)
    assert headings[:1] == [name]
    assert {"Sample config", "Fixtures"} <= {*headings}
    assert any(heading.startswith("Wiring") for heading in headings)
    assert f"{name}-0" in SAMPLES
