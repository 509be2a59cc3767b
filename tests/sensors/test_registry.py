"""Drivers are found by name: those shipped, and those of other packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sensors import _template
from sensors.base import SensorError
from sensors.registry import DRIVERS, open_driver

SCRIPT = Path(sys.executable).with_name("sanderling-edge")
CONFIG = """\
[node]
name = "n1"
areas = ["b1"]

[master]
address = "tcp://127.0.0.1:5701"

[[sensor]]
driver = "cpu"
options = { zone = "zone.temp" }
"""


def install(site: Path, package: str, value: str, driver: str = "cpu") -> None:
    """What pip leaves behind of a package with one entry point."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sanderling.sensors]\n{driver} = {value}\n")


def copy_template(site: Path, module: str) -> None:
    shutil.copytree(Path(_template.__file__).parent, site / module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_has_a_folder_with_its_name_and_a_readme(name: str) -> None:
    assert DRIVERS[name] == f"sensors.{name}"
    assert (Path(_template.__file__).parents[1] / name / "README.md").exists()


def test_a_copy_of_the_template_and_an_entry_point_are_a_driver(site: Path, tmp_path: Path) -> None:
    copy_template(site, "acme_cpu")
    install(site, "acme-sensors", "acme_cpu:open_driver")
    (tmp_path / "zone.temp").write_text("48312\n")
    assert open_driver("cpu", {"zone": "zone.temp"}, tmp_path).read().values == (48.312,)
    with pytest.raises(SensorError, match=r"^cpu: unknown option zon; did you mean zone\?$"):
        open_driver("cpu", {"zon": "zone.temp"}, tmp_path)
    with pytest.raises(SensorError, match=r"unknown sensor driver cpv; did you mean cpu\?"):
        open_driver("cpv", {}, tmp_path)


def test_the_agent_takes_a_driver_of_another_package(tmp_path: Path) -> None:
    copy_template(tmp_path, "acme_cpu")
    install(tmp_path, "acme-sensors", "acme_cpu:open_driver")
    (tmp_path / "edge.toml").write_text(CONFIG)
    check = [SCRIPT, "--config", "edge.toml", "--check"]
    for package, status, line in [
        (str(tmp_path), 0, "edge.toml: ok"),
        ("", 2, "unknown sensor driver cpu"),
    ]:
        done = subprocess.run(
            check,
            cwd=tmp_path,
            env={"PYTHONPATH": package},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode, line in said) == (status, True), said
        assert said.count("\n") == 1


def test_two_packages_with_one_name_are_both_named(site: Path, tmp_path: Path) -> None:
    copy_template(site, "acme_cpu")
    install(site, "acme-sensors", "acme_cpu:open_driver")
    install(site, "zeta-sensors", "acme_cpu:open_driver")
    with pytest.raises(
        SensorError, match="cpu comes with the packages acme-sensors and zeta-sensors: remove one"
    ):
        open_driver("cpu", {}, tmp_path)


ODD_CHANNEL = """
class open_driver:
    channels = ("level",)
    read = preload = close = __init__ = lambda self, *options: None
"""


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        ("import nothing_like_it", "acme_x:open_driver", "ModuleNotFoundError: No module named"),
        ("def open_driver(:", "acme_x:open_driver", "SyntaxError: invalid syntax"),
        ("", "acme_x:open_driver", "AttributeError: .* no attribute 'open_driver'"),
        ("raise ValueError('a\\nb')", "acme_x:open_driver", "ValueError: a$"),
        ("def open_driver(options): 1 / 0", "acme_x:open_driver", "ZeroDivisionError: "),
        ("def open_driver(options): pass", "acme_x:open_driver", "TypeError: .* gave NoneType, "),
        ("", "acme_gone:open_driver", "ModuleNotFoundError: No module named 'acme_gone'"),
        ("raise SystemExit(0)", "acme_x:open_driver", "SystemExit: 0$"),
        ("def open_driver(options): raise SystemExit", "acme_x:open_driver", "SystemExit: $"),
        ("def open_driver(options): raise GeneratorExit", "acme_x:open_driver", "GeneratorExit: "),
        (
            ODD_CHANNEL,
            "acme_x:open_driver",
            "TypeError: open_driver gave str in place of a channel",
        ),
    ],
)
def test_a_package_that_fails_is_one_line(
    site: Path, tmp_path: Path, source: str, value: str, problem: str
) -> None:
    (site / "acme_x.py").write_text(source)
    install(site, "acme-sensors", value)
    sys.modules.pop("acme_x", None)
    with pytest.raises(
        SensorError, match=f"cpu \\(of package acme-sensors\\): {problem}"
    ) as caught:
        open_driver("cpu", {}, tmp_path)
    assert "\n" not in str(caught.value)


def test_drivers_that_are_shipped_cost_no_look_at_packages(tmp_path: Path) -> None:
    program = (
        "import sys; from sensors.registry import open_driver; "
        "open_driver('synthetic', {}, '.').read(); "
        "assert 'importlib.metadata' not in sys.modules; "
        "assert 'sensors.replay' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_options_of_any_shape_are_checked(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"channels": [{"name": []}]}, {"channels": [1]}, {"port": {}}]
    for options in wrong:
        with pytest.raises(SensorError, match=r"^serial_line: "):
            open_driver("serial_line", {"format": "csv", **options}, tmp_path)
