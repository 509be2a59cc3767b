"""Config files: one line for whatever is wrong, with the nearest known key."""

import math
import os
import tomllib
from contextlib import nullcontext

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.wire.config import ConfigError, load, parse
from agent.wire.config_words import PATTERNS, is_table_of_sections, section_of
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
NEIGHBOUR = """
[[overlay.neighbour]]
iad = "iad4"
vertex = "v2"
cluster = 0
address = "tcp://127.0.0.1:5800"
"""
WEBHOOK = """
[[webhook]]
name = "pager"
url = "https://pager.example.com/"
filter = "*"
secret = "pager.secret"
"""
TRIGGER = """
[[trigger]]
name = "hot"
condition = "temperature > 30"
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
            "sensor synthetic (first [[sensor]]): unknown key intervall_s; did you mean interval_",
        ),
        (EdgeConfig, EDGE + "[histroy]", "unknown key histroy; did you mean history?"),
        (
            EdgeConfig,
            EDGE + "zzz = 1",
            "place, options, channels; a driver's own options go into [sensor.options]",
        ),
        (
            EdgeConfig,
            EDGE + "interval_s = 0",
            "sensor synthetic (first [[sensor]]): interval_s must be at least 0.01",
        ),
        (
            EdgeConfig,
            EDGE + 'interval_s = "1"',
            "sensor synthetic (first [[sensor]]): interval_s must be a number, without quotes",
        ),
        (
            EdgeConfig,
            EDGE.replace("[[sensor]]", "[sensor]"),
            "sensor must be a list of tables: write [[sensor]] in place of [sensor]",
        ),
        (
            EdgeConfig,
            EDGE + '[[sensor]]\ndriver = "synthetic"',
            "two sensors are called synthetic: give one of them another name",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\noffest = 1",
            "(first [[sensor]]): channels.temperature: unknown key offest; did you mean offset?",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\nname = 'T'",
            "must be a channel: a lower-case letter, then at most 31 more, digits or _; or empty",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.temperature]\ngain = 0",
            "sensor synthetic (first [[sensor]]): channels.temperature: gain must not be 0",
        ),
        (
            EdgeConfig,
            EDGE + 'name = "a"\n[[sensor]]\nname = "b"',
            "sensor b (second [[sensor]]): driver is missing",
        ),
        (
            EdgeConfig,
            EDGE + 'name = "a"\n[[sensor]]\ninterval_s = 2',
            "the second [[sensor]]: driver is missing",
        ),
        (
            EdgeConfig,
            EDGE + "[sensor.channels.humidity]\n[sensor.channels.temperature]\nlow = '9'",
            "(first [[sensor]]): channels.temperature.low must be a number, without quotes",
        ),
        (
            EdgeConfig,
            EDGE.replace('["b1/f4/r413"]', '"b1/f4/r413"'),
            "node.areas must be a list, in brackets",
        ),
        (EdgeConfig, EDGE.replace('["b1/f4/r413"]', "[]"), "node.areas must not be empty"),
        (EdgeConfig, EDGE.replace("[node]", "[[node]]"), "write [node] in place of [[node]]"),
        (EdgeConfig, EDGE[: EDGE.index("[[sensor]]")], "[[sensor]] is missing"),
        (EdgeConfig, EDGE[EDGE.index("[master]") :], "[node] is missing"),
        (
            EdgeConfig,
            EDGE + "[[sensor.channels]]",
            "channels must be one table: write [sensor.channels] in place of [[sensor.channels]]",
        ),
        (EdgeConfig, EDGE.replace('"n1"', "1"), "node.name must be a text, in quotes"),
        (
            EdgeConfig,
            EDGE + "[pods]\ncount = 1.5",
            "pods.count must be a whole number",
        ),
        (
            EdgeConfig,
            EDGE + '[pods]\ncontainers = "yes"',
            "pods.containers must be true or false, without quotes",
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
        (EdgeConfig, EDGE.replace('name = "n1"', ""), "node.name is missing"),
        (MasterConfig, MASTER.replace("[iad]", "[iadd]"), "unknown key iadd; did you mean iad?"),
        (
            MasterConfig,
            MASTER.replace("areas", "area"),
            "pool iad3 (first [[pool]]): unknown key area; did you mean areas?",
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
            "scheduling.policy must be fifo, spr, tedfq, edfq or sanderling, not 'edf'",
        ),
        (
            MasterConfig,
            MASTER.replace('name = "iad3"', 'name = "iad 3"'),
            "iad.name must be a name of 1–64 letters, digits, _ . -",
        ),
        (
            MasterConfig,
            MASTER.replace('"b1/f4"', '"b1", "b1//f4"'),
            "pool iad3 (first [[pool]]): areas, second entry must be an area: a path of at most 16",
        ),
    ],
)
def test_one_line_says_what_is_wrong(kind, text, line):
    with pytest.raises(ConfigError) as refused:
        parse(tomllib.loads(text), kind, "agent.toml")
    assert str(refused.value).startswith("agent.toml: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


# Without what no TOML file has, and without what msgspec has in its own words.
TEXTS = st.text(st.characters(exclude_characters="`", exclude_categories=("Cs",)), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner),
    max_leaves=4,
)


@given(st.data(), VALUES)
@settings(deadline=None)
def test_whatever_stands_where_it_should_not_is_put_in_plain_words(data, value):
    kind, text = data.draw(st.sampled_from([(EdgeConfig, EDGE), (MasterConfig, MASTER)]))
    found = whole = tomllib.loads(text + "[trust]\n[metrics]\n")
    while True:
        here = found
        keys = list(range(len(here))) if isinstance(here, list) else [*here, "new"]
        if (key := data.draw(st.sampled_from(keys))) not in keys[: len(here)]:
            break
        found = here[key]
        if not isinstance(found, dict | list) or not found or data.draw(st.booleans()):
            break
    here[key] = value
    said = ""
    try:
        parse(whole, kind, "agent.toml")
    except ConfigError as error:
        said = str(error).replace(repr(value), "")
    assert "`" not in said
    assert "Expected" not in said


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
    text = tomllib.loads(EDGE + TRIGGER if kind is EdgeConfig else MASTER + NEIGHBOUR + WEBHOOK)
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
                assert " must be " in str(refused.value)


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
    with pytest.raises(ConfigError, match="or no text; save it as UTF-8"):
        load(tmp_path / "binary.toml", EdgeConfig)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a = " + "[" * 100_000, "lists or tables are nested too deeply"),
        ("a = " + "{b = " * 10_000, "lists or tables are nested too deeply"),
        ("a = " + "9" * 5_000, "a number has more than 4,300 digits"),
        ("a" * 100_000 + " = 1", "unknown key aaa"),
        ("a = 1\n" + " " * (64 << 20), "it has more than 64 MiB"),
    ],
    ids=["lists", "tables", "digits", "key", "size"],
)
def test_a_file_that_somebody_made_to_harm_is_refused_in_one_line(tmp_path, content, line):
    (tmp_path / "bad.toml").write_text(content)
    with pytest.raises(ConfigError, match=f"bad.toml: {line}") as refused:
        load(tmp_path / "bad.toml", EdgeConfig)
    assert len(str(refused.value)) < 2_000


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match="it is a pipe; name a file"):
        load(tmp_path / "pipe.toml", EdgeConfig)


def test_a_mark_that_an_editor_put_in_front_of_the_text_is_told(tmp_path):
    file = tmp_path / "edge.toml"
    file.write_text(EDGE, encoding="utf-8-sig")
    with pytest.raises(ConfigError, match="begins with a byte-order mark; save it as UTF-8 with"):
        load(file, EdgeConfig)


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("utf-16", "it is UTF-16, or no text; save it as UTF-8"),
        ("utf-16-le", "it is UTF-16, or no text; save it as UTF-8"),
        ("latin-1", "line 2 is no UTF-8; save it as UTF-8"),
    ],
)
def test_a_file_of_another_encoding_says_what_to_do(tmp_path, encoding, line):
    file = tmp_path / "edge.toml"
    file.write_text("#\n# \u00e9\n" + EDGE, encoding=encoding)
    with pytest.raises(ConfigError) as refused:
        load(file, EdgeConfig)
    assert str(refused.value) == f"{file}: {line}"


@pytest.mark.parametrize("table", ["[sensor.channels.temperature]", "[ sensor.options ]"])
def test_a_table_of_a_sensor_above_it_is_told(tmp_path, table):
    file = tmp_path / "edge.toml"
    file.write_text(EDGE.replace("[[sensor]]", f"{table}\n[[sensor]]"))
    with pytest.raises(ConfigError, match=r"line 7: .* stands above the first \[\[sensor\]\]: put"):
        load(file, EdgeConfig)
    file.write_text(EDGE + 'driver = "replay"')
    with pytest.raises(ConfigError, match="not valid TOML: Cannot overwrite a value"):
        load(file, EdgeConfig)
