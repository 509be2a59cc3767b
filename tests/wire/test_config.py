"""Config files: one line for whatever is wrong, with the nearest known key."""

import tomllib

import pytest

from agent.wire.config import ConfigError, EdgeConfig, MasterConfig, load, parse

EDGE = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "tcp://127.0.0.1:5701"
[sensor]
driver = "synthetic"
"""
MASTER = """
[iad]
name = "iad3"
[sockets]
public = "tcp://127.0.0.1:5700"
nodes = "tcp://127.0.0.1:5701"
operator = "ipc:///run/sanderling/operator"
[[pool]]
iad = "iad3"
address = "tcp://127.0.0.1:5700"
areas = ["b1/f4"]
"""


def test_defaults():
    edge = parse(tomllib.loads(EDGE), EdgeConfig, "edge.toml")
    assert edge.history.retention_s == 3 * 86_400
    assert edge.sensor.interval_s == 1.0
    master = parse(tomllib.loads(MASTER), MasterConfig, "master.toml")
    assert master.scheduling.policy == "edfq"
    assert master.scheduling.timeout_factor == 4.0


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (
            EdgeConfig,
            EDGE + "intervall_s = 2",
            "unknown key sensor.intervall_s; did you mean sensor.interval_s?",
        ),
        (EdgeConfig, EDGE + "[histroy]", "unknown key histroy; did you mean history?"),
        (
            EdgeConfig,
            EDGE + "zzz = 1",
            "unknown key sensor.zzz; known: driver, interval_s, options",
        ),
        (EdgeConfig, EDGE + "interval_s = 0", "sensor.interval_s: Expected `float` > 0"),
        (EdgeConfig, EDGE + 'interval_s = "1"', "sensor.interval_s: Expected `float`, got `str`"),
        (EdgeConfig, EDGE.replace("tcp", "http"), "master.address: Expected `str` matching"),
        (EdgeConfig, EDGE.replace("127.0.0.1", "192.0.2.1"), "leaves this host without keys"),
        (EdgeConfig, EDGE.replace('name = "n1"', ""), "node: Object missing required field `name`"),
        (MasterConfig, MASTER.replace("[iad]", "[iadd]"), "unknown key iadd; did you mean iad?"),
        (
            MasterConfig,
            MASTER.replace("areas", "area"),
            "unknown key pool.area; did you mean pool.areas?",
        ),
        (
            MasterConfig,
            MASTER.replace('iad = "iad3"', 'iad = "iad2"'),
            "the pool has no entry for this IAD, iad3",
        ),
        (MasterConfig, MASTER + MASTER[MASTER.index("[[") :], "the pool names iad3 more than once"),
        (
            MasterConfig,
            MASTER.replace("tcp://127.0.0.1:5701", "tcp://*:5701"),
            "sockets.nodes = 'tcp://*:5701' leaves this host",
        ),
        (
            MasterConfig,
            MASTER + '[scheduling]\npolicy = "edf"',
            "scheduling.policy: Invalid enum value 'edf'",
        ),
    ],
)
def test_one_line_says_what_is_wrong(kind, text, line):
    with pytest.raises(ConfigError) as refused:
        parse(tomllib.loads(text), kind, "agent.toml")
    assert str(refused.value).startswith("agent.toml: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_missing_or_no_toml(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml", EdgeConfig)
    (tmp_path / "bad.toml").write_text("[node\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "bad.toml", EdgeConfig)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "binary.toml", EdgeConfig)
