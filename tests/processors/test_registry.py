"""Processors of other packages: the example, and what packages get wrong."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from processors.base import ProcessorError
from processors.registry import GROUP, PROCESSORS, channels_of, open_processor

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "processor"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a package that has these processors, and this code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def made(name, points, code):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{point} = {where}\n" for point, where in points.items()]
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(lines))
        (tmp_path / f"{name}.py").write_text(code)

    yield made
    for module in set(sys.modules) - before:
        del sys.modules[module]


def test_the_example_is_a_processor(install):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    points = project["project"]["entry-points"][GROUP]
    install("acme_mould", points, (EXAMPLE / "acme_mould.py").read_text())
    process, state = open_processor("mould", {}), {}
    sample = (EXAMPLE / "sample.jsonl").read_text().splitlines()
    golden = (EXAMPLE / "golden.jsonl").read_text().splitlines()
    found = [output for line in sample for output in process(json.loads(line), state)]
    assert found == [json.loads(line) for line in golden]
    earlier, state = open_processor("mould", {"hours": 3}), {}
    (first, *_) = [output for line in sample for output in earlier(json.loads(line), state)]
    assert first["time_ms"] < found[0]["time_ms"]


CODE = """
import sys
def plain(message, state): return None
def typed(message, state, *, least: float, names: list[str] = [], free=None, n=3): return [
    {"least": least, "n": n, "free": free}]
def one(message): return None
class Class:
    def __call__(self, message, state, *, deep=1): return [{"deep": deep}]
made = Class()
number = 7
"""


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("plain", {"x": 1}, "plain: unknown key x"),
        ("typed", {}, "typed: least is missing"),
        ("typed", {"least": "much"}, "typed: least must be a number"),
        ("typed", {"least": 1.0, "n": 1.5}, "typed: n must be a whole number"),
        ("typed", {"least": 1.0, "lest": 2}, "typed: unknown key lest; did you mean least"),
        ("one", {}, "one (of package acme): process(message, state) takes two arguments"),
        ("number", {}, "number (of package acme): 7 is not callable"),
        ("absent", {}, "absent (of package acme) cannot be imported: AttributeError"),
        ("plane", {}, "unknown processor plane; did you mean plain?"),
        ("agregate", {}, "unknown processor agregate; did you mean aggregate?"),
    ],
)
def test_what_is_wrong_is_one_line(install, name, given, said):
    names = ("plain", "typed", "one", "made", "number", "absent")
    install("acme", {each: f"acme:{each}" for each in names}, CODE)
    with pytest.raises(ProcessorError) as caught:
        open_processor(name, given)
    assert str(caught.value).startswith(said), str(caught.value)
    assert "\n" not in str(caught.value)


def test_parameters_are_arguments_by_name(install):
    install("acme", {each: f"acme:{each}" for each in ("plain", "typed", "made")}, CODE)
    assert open_processor("plain", {})({}, {}) is None
    typed = open_processor("typed", {"least": 1, "free": [1, {}]})
    assert typed({}, {}) == [{"least": 1.0, "n": 3, "free": [1, {}]}]
    assert open_processor("made", {"deep": 2})({}, {}) == [{"deep": 2}]


def test_two_packages_with_one_name_are_refused(install):
    for package in ("acme", "bolt"):
        install(package, {"same": f"{package}:plain"}, CODE)
    with pytest.raises(ProcessorError, match="comes with the packages acme and bolt: remove one"):
        open_processor("same", {})


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named"),
        ("import sys; sys.exit('no')", "SystemExit: no"),
        ("def process(:", "SyntaxError: invalid syntax"),
        ("raise ValueError('two\\nlines')", "ValueError: two"),
    ],
)
def test_a_module_that_cannot_be_imported_is_one_line(install, code, said):
    install("broken", {"broken": "broken:process"}, code)
    with pytest.raises(ProcessorError) as caught:
        open_processor("broken", {})
    assert str(caught.value).startswith(f"broken (of package broken) cannot be imported: {said}")
    assert "\n" not in str(caught.value)


def test_each_processor_says_which_channels_it_uses():
    uses = {
        "aggregate": ({"channels": ["co2", "voc"]}, ("co2", "voc")),
        "anomaly": ({}, ("temperature",)),
        "comfort_index": ({"humidity": "rh"}, ("temperature", "rh")),
        "forecast": ({"channel": "co2"}, ("co2",)),
        "threshold": ({"when": "mean(co2) > 3", "until": "voc < 2 or co2 < 1"}, ("co2", "voc")),
    }
    assert {*uses} == {*PROCESSORS}
    for name, (given, channels) in uses.items():
        assert channels_of(name, given) == channels
    assert channels_of("of-another-package", {}) == ()
    with pytest.raises(ProcessorError, match="did you mean when"):
        channels_of("threshold", {"whn": "co2 > 3"})
