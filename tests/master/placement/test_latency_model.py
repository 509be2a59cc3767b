"""The latency model that a master's configuration names: read, judged by, or said in a line."""

from __future__ import annotations

import re

import pytest

from _core.colocation.model_file import VERSION, ModelFile, encode
from agent.master.placement.latency_model import model_of
from agent.placement.view import View
from agent.placement.world import Unit
from agent.wire.config import ConfigError, parse
from agent.wire.master_config import MasterConfig
from agent.wire.messages import Slo
from agent.wire.placement import PlacementFacts, Source, TopicFacts

SOCKETS = {"public": "ipc:///run/p", "operator": "ipc:///run/o"}


def trained(**more):
    """A model of slow hardware: a message takes twenty times its CPU time."""
    numbers = {
        "version": VERSION, "discipline": "shared-queue", "quantile": 0.9, "cores": 1.0,
        "interference": 0.0, "service_scale": 20.0, "overhead_s": 0.0005, "service_variance": 0.0,
        "speed_variance": 0.0, "window_s": 100.0, "runs": 180, "serial": True,
    }  # fmt: skip
    return encode(ModelFile(**{**numbers, **more}))


def config(model=""):
    table = {"iad": {"name": "iad1"}, "sockets": SOCKETS, "placement": {"model": model}}
    return parse(table, MasterConfig, "test")


def test_without_a_file_there_is_no_trained_model(tmp_path):
    assert model_of(config(), tmp_path) is None


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "No such file or directory"),
        (b"{", "not a latency model: Input data was truncated"),
        (b"\xff\xfe", "not a latency model: "),
        (trained(version=9), "version 9 of a latency model; this release reads 1"),
        (trained(quantile=2.0), "quantile = 2.0 is not between 0 and 1"),
        (trained(cores=float("nan")), ""),
        (trained() + b" " * (17 << 20), "a latency model has at most 16777216 bytes"),
    ],
    ids=["gone", "half", "binary", "newer", "quantile", "nan", "large"],
)
def test_a_damaged_file_is_one_line(tmp_path, content, line):
    path = tmp_path / "model.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(f"placement.model: {path}: {line}")) as said:
        model_of(config("model.json"), tmp_path)
    assert "\n" not in str(said.value)


def test_objectives_are_judged_by_the_trained_model(tmp_path):
    (tmp_path / "model.json").write_bytes(trained())
    model = model_of(config("model.json"), tmp_path)
    a, b = (
        TopicFacts(name, (Source("iad1", 9.0),), cpu_ms=2.0, slo=Slo(90.0, 50.0)) for name in "ab"
    )
    facts = [
        PlacementFacts("iad1", 1, 1, 5.0, topics=(a,)),
        PlacementFacts("iad2", 1, 1, 5.0, topics=(b,)),
    ]
    unit = Unit("processor", "a")

    def reason(view):
        (row,) = [row for row in view.price.why(unit) if row.master == "iad2"]
        return row.reason

    assert reason(View(facts)) == ""
    assert (
        reason(View(facts, model)) == "a topic would miss its objective beside 1 other processors"
    )
    assert View(facts).infeasible(unit) == ""
    assert "it would get p90 = 57.3 ms, its objective is 50 ms" in View(facts, model).infeasible(
        unit
    )
