"""Config files: one line for whatever is wrong, with the nearest known key."""

import math
import tomllib
from contextlib import nullcontext

import msgspec
import pytest

from agent.scheduling.deadlines import DeadlineEstimator
from agent.wire.config import ConfigError, is_table_of_sections, load, parse, section_of
from agent.wire.config_words import PATTERNS
from agent.wire.drs_config import DrsConfig
from agent.wire.edge_config import EdgeConfig
from agent.wire.master_config import MasterConfig

EDGE = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "tcp://127.0.0.1:5701"
[[sensor]]
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
    assert edge.sensor[0].interval_s == 1.0
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
            "unknown key sensor.zzz; known: driver, name, interval_s, place, options, channels",
        ),
        (EdgeConfig, EDGE + "interval_s = 0", "sensor[0].interval_s: Expected `float` >= 0.01"),
        (
            EdgeConfig,
            EDGE + 'interval_s = "1"',
            "sensor[0].interval_s: Expected `float`, got `str`",
        ),
        (
            EdgeConfig,
            EDGE.replace("[[sensor]]", "[sensor]"),
            "sensor: Expected a list of tables: write [[sensor]] in place of [sensor]",
        ),
        (
            EdgeConfig,
            EDGE + '[[sensor]]\ndriver = "synthetic"',
            "two sensors are called synthetic: give one of them another name",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\noffest = 1",
            "unknown key sensor.channels.temperature.offest; did you mean sensor.channels.",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\nname = 'T'",
            "Expected a channel: a lower-case letter, then at most 31 more, digits or _; or empty",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\ngain = 0",
            "gain must not be 0",
        ),
        (
            EdgeConfig,
            EDGE + "[history]\nretention_bytes = 1000",
            "retention_bytes must be at least 1048576, or 0 for no bound",
        ),
        (
            EdgeConfig,
            EDGE.replace("tcp", "http"),
            "master.address = 'http://127.0.0.1:5701' is neither tcp://host:port, ",
        ),
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
            "scheduling.policy: Invalid enum value 'edf'; choose one of fifo, spr, tedfq, edfq",
        ),
        (
            MasterConfig,
            MASTER.replace('name = "iad3"', 'name = "iad 3"'),
            "iad.name: Expected a name of 1–64 letters, digits, _ . -",
        ),
        (
            MasterConfig,
            MASTER.replace('"b1/f4"', '"b1", "b1//f4"'),
            "pool[0].areas[1]: Expected an area: a path of at most 16 names, such as b1/f4/r413",
        ),
    ],
)
def test_one_line_says_what_is_wrong(kind, text, line):
    with pytest.raises(ConfigError) as refused:
        parse(tomllib.loads(text), kind, "agent.toml")
    assert str(refused.value).startswith("agent.toml: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://localhost:65535", "ipc://a/b"])
def test_addresses_on_this_host(address):
    parse(tomllib.loads(EDGE.replace("tcp://127.0.0.1:5701", address)), EdgeConfig, "")


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:none",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1: 80",
        "tcp://127.0.0.1:٣",
        "tcp://:5701",
        "tcp://",
        "tcp://*:5701",
        "tcp://[::1]:5701",
        "tcp://127.0.0.1:80;127.0.0.2:81",
        "tcp://192.0.2.1:5701",
        "tcp://master.example:5701",
        "ipc://",
        "ipc://*",
        "ipc://a\\u0000b",
        "ipc://" + "ü" * 54,
        "udp://127.0.0.1:5701",
        "127.0.0.1:5701",
        "",
    ],
)
def test_other_addresses_are_refused_wherever_they_stand(address):
    places = {
        "master.address": (EdgeConfig, EDGE, "tcp://127.0.0.1:5701"),
        "sockets.public": (MasterConfig, MASTER, 'tcp://127.0.0.1:5700"\nnodes'),
        "sockets.operator": (MasterConfig, MASTER, "ipc:///run/sanderling/operator"),
        "pool.address of iad3": (MasterConfig, MASTER, 'tcp://127.0.0.1:5700"\nareas'),
    }
    for key, (kind, text, old) in places.items():
        new = address + '"' + old.partition('"')[2] if '"' in old else address
        assert old in text
        with pytest.raises(ConfigError) as refused:
            parse(tomllib.loads(text.replace(old, new)), kind, "agent.toml")
        assert str(refused.value).startswith(f"agent.toml: {key} = ")
        assert "\n" not in str(refused.value)


def numbers(kind):
    """(place, type) of every number of an agent's file; a place is the keys on the way to it."""
    for field in msgspec.structs.fields(kind):
        if inner := section_of(field.type):
            step = {"name": "temperature"} if is_table_of_sections(field.type) else {}
            step |= {} if inner is field.type or step else {"row": 0}
            for place, found in numbers(inner):
                yield (field.name, *step.values(), *place), found
            continue
        found = msgspec.inspect.type_info(field.type)
        while isinstance(found, msgspec.inspect.Metadata | msgspec.inspect.UnionType):
            union = isinstance(found, msgspec.inspect.UnionType)
            found = found.types[0] if union else found.type
        if isinstance(found, msgspec.inspect.IntType | msgspec.inspect.FloatType):
            yield (field.name,), found


def with_value(data, place, value):
    """A copy of parsed TOML with a value at that place."""
    if not place:
        return value
    step, *rest = place
    if isinstance(step, int):
        rows = data or [{}]
        return [with_value(rows[0], rest, value), *rows[1:]]
    return (data or {}) | {step: with_value((data or {}).get(step), rest, value)}


@pytest.mark.parametrize("kind", [EdgeConfig, MasterConfig])
def test_every_number_is_bounded(kind):
    text = tomllib.loads(EDGE if kind is EdgeConfig else MASTER)
    for place, found in numbers(kind):
        assert found.le is not None, place
        assert found.ge is not None or found.gt is not None, place
        good = [found.le] if found.ge is None else [found.ge, found.le]
        bad = [found.le + 1, (found.ge or found.gt or 0) - 1]
        if isinstance(found, msgspec.inspect.FloatType):
            bad += [math.inf, -math.inf, math.nan]
        for value in good + bad:
            with pytest.raises(ConfigError) if value not in good else nullcontext() as refused:
                parse(with_value(text, place, value), kind, "agent.toml")
            if refused:
                assert str(refused.value).startswith(f"agent.toml: {place[0]}")
                assert "Expected" in str(refused.value)


@pytest.mark.parametrize("cold_start_ms", [0.01, 600_000.0])
@pytest.mark.parametrize("window_s", [0.001, 2_000_000.0])
@pytest.mark.parametrize("window_samples", [1, 65_535])
def test_the_deadline_estimator_takes_what_the_file_may_say(
    window_samples, window_s, cold_start_ms
):
    """The bounds of `test_every_number_is_bounded` are those of _core."""
    settings = {
        "window_samples": window_samples,
        "window_s": window_s,
        "cold_start_ms": cold_start_ms,
    }
    found = parse(tomllib.loads(MASTER) | {"scheduling": settings}, MasterConfig, "").scheduling
    DeadlineEstimator(
        window_samples=found.window_samples,
        window_s=found.window_s,
        cold_start_s=found.cold_start_ms / 1e3,
    )


@pytest.mark.parametrize("kind", [EdgeConfig, MasterConfig, DrsConfig])
def test_every_pattern_has_words(kind):
    def patterns(found):
        if isinstance(found, msgspec.inspect.StrType):
            yield found.pattern
        elif isinstance(found, msgspec.inspect.Metadata):
            yield from patterns(found.type)
        elif isinstance(found, msgspec.inspect.VarTupleType):
            yield from patterns(found.item_type)
        elif isinstance(found, msgspec.inspect.DictType):
            yield from patterns(found.value_type)
        elif isinstance(found, msgspec.inspect.StructType):
            for field in found.fields:
                yield from patterns(field.type)

    used = set(patterns(msgspec.inspect.type_info(kind))) - {None}
    assert used
    assert used <= PATTERNS.keys()


def test_a_file_that_is_missing_or_no_toml(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml", EdgeConfig)
    (tmp_path / "bad.toml").write_text("[node\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "bad.toml", EdgeConfig)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "binary.toml", EdgeConfig)
