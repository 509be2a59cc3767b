"""Predicted latencies of co-located topics, against formulas written out, and their file."""

import json
import random

import pytest

from _core.colocation.model import Candidates, Colocation
from _core.colocation.model_file import ModelError, ModelFile, Tree, decode, encode
from tests.oracles import colocation as oracle

Topics = list[oracle.Topic]


def ask(topics: Topics, *, shared: bool, **parameters: object) -> Candidates:
    columns = [list(each) for each in zip(*topics, strict=True)]
    return Candidates(Colocation(shared=shared, **parameters), *columns)  # type: ignore[arg-type]


def some(draw: random.Random, count: int) -> Topics:
    return [
        (
            draw.uniform(0.005, 0.06),
            draw.choice([0.0, draw.uniform(0.1, 60.0)]) if draw.random() < 0.2 else
            draw.uniform(0.5, 40.0),
            draw.choice([0, 1, 5, 40]),
            draw.choice([0.2, 1.0, 1.0, 3.0]),
            draw.choice([0.5, 0.9, 0.99]),
        )
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_against_the_twin(seed: int, shared: bool) -> None:
    draw = random.Random(seed)
    topics = some(draw, draw.randint(1, 7))
    parameters = {
        "cores": draw.choice([1.0, 3.7, 4.0]),
        "interference": draw.choice([0.0, 0.08]),
        "service_scale": draw.uniform(0.5, 1.5),
        "overhead_s": 0.002,
        "service_variance": draw.choice([0.0, 0.3]),
        "speed_variance": draw.choice([0.0, 2.0]),
        "window_s": draw.choice([10.0, 90.0]),
        "serial": draw.random() < 0.5,
    }
    found = ask(topics, shared=shared, **parameters).latencies(range(len(topics)))
    expected = oracle.latencies(topics, shared=shared, **parameters)
    assert found == pytest.approx(expected, rel=1e-9)


def grow(draw: random.Random) -> list[list[float]]:
    """A random tree of up to three levels, children after their parents."""
    nodes: list[list[float]] = []

    def node(level: int) -> int:
        here = len(nodes)
        nodes.append([draw.randrange(10), draw.uniform(-1.0, 2.0), -1, -1, draw.uniform(-0.2, 0.2)])
        if level < 3 and draw.random() < 0.8:
            nodes[here][2:4] = [node(level + 1), node(level + 1)]
        return here

    node(0)
    return [list(column) for column in zip(*nodes, strict=True)]


@pytest.mark.parametrize("shared", [False, True])
def test_trees_add_to_the_logarithm(shared: bool) -> None:
    import math

    draw = random.Random(5)
    topics = some(draw, 6)
    trees = [grow(draw) for _ in range(20)]
    given = {"cores": 4.0, "interference": 0.08}
    plain = ask(topics, shared=shared, **given)
    grown = ask(topics, shared=shared, trees=trees, **given)
    rows = plain.features(range(6))
    assert [math.exp(row[0]) for row in rows] == pytest.approx(plain.latencies(range(6)))
    assert grown.features(range(6)) == rows
    assert grown.latencies(range(6)) == pytest.approx(
        [math.exp(row[0] + oracle.tree_sum(trees, row)) for row in rows]
    )


@pytest.mark.parametrize("shared", [False, True])
def test_feasible_says_what_the_latencies_say(shared: bool) -> None:
    draw = random.Random(3)
    topics = some(draw, 30)
    asked = ask(topics, shared=shared, cores=4.0, interference=0.08)
    answers = []
    for _ in range(300):
        chosen = draw.sample(range(30), draw.randint(1, 6))
        kept = [
            latency <= topics[i][3]
            for i, latency in zip(chosen, asked.latencies(chosen), strict=True)
        ]
        answers.append(asked.feasible(chosen))
        assert answers[-1] == all(kept)
    assert 30 < sum(answers) < 270


@pytest.mark.parametrize("shared", [False, True])
def test_a_topic_without_messages_waits_for_nothing(shared: bool) -> None:
    topics: Topics = [(0.02, 0.0, 3, 1.0, 0.9), (0.02, 0.0, 0, 2.0, 0.9)]
    asked = ask(topics, shared=shared, cores=4.0, interference=0.0)
    assert asked.latencies([0]) == [0.02]
    assert asked.latencies([0, 1]) == [0.02, 0.02]


def test_a_topic_whose_messages_go_one_at_a_time_waits_for_itself() -> None:
    """One core is at its limit, and the other three help as little as in a master."""
    busy: Topics = [(0.01, 95.0, 0, 1.0, 0.9)]
    together, alone = (
        ask(busy, shared=True, serial=serial, cores=4.0, interference=0.0).latencies([0])[0]
        for serial in (False, True)
    )
    assert together < 0.012
    thread = ask(busy, shared=False, cores=4.0, interference=0.0).latencies([0])
    assert alone == pytest.approx(thread[0], rel=1e-6)


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_one_more_topic_never_helps(shared: bool, serial: bool) -> None:
    draw = random.Random(4)
    topics = [(s, r, n, 1.0, q) for s, r, n, _, q in some(draw, 8)]
    numbers = {"cores": 4.0, "interference": 0.08, "service_variance": 0.1, "serial": serial}
    asked = ask(topics, shared=shared, **numbers)
    for count in range(1, 8):
        fewer, more = asked.latencies(range(count)), asked.latencies(range(count + 1))
        for i in range(count):
            # The fixed point's last step may be that much short.
            assert more[i] >= fewer[i] * 0.999


def test_with_equal_objectives_all_wait_alike_and_else_the_tight_ones_less() -> None:
    def waits(objectives: list[float]) -> list[float]:
        topics: Topics = [(0.02, 45.0, 0, each, 0.9) for each in objectives]
        return ask(topics, shared=True, cores=4.0, interference=0.0).latencies(range(4))

    alike = waits([1.0] * 4)
    assert alike == pytest.approx([alike[0]] * 4)
    mixed = waits([0.05, 1.0, 1.0, 1.0])
    assert mixed[0] < alike[0] < mixed[1]


def test_out_of_range_is_refused() -> None:
    asked = ask([(0.01, 1.0, 0, 1.0, 0.9)], shared=False, cores=4.0, interference=0.0)
    with pytest.raises(IndexError, match=r"topic 1 is not in 0\.\.0"):
        asked.feasible([1])
    with pytest.raises(ValueError, match="no topics"):
        asked.feasible([])
    with pytest.raises(ValueError, match="more than 32"):
        asked.feasible([0] * 33)
    for place, value in ((0, 0.0), (1, -1.0), (2, -1.0), (3, float("nan")), (4, 1.0)):
        topic = [0.01, 1.0, 0.0, 1.0, 0.9]
        topic[place] = value
        with pytest.raises(ValueError, match="topic 0"):
            ask([tuple(topic)], shared=False, cores=4.0, interference=0.0)  # type: ignore[list-item]


FILE = ModelFile(
    version=1,
    discipline="shared-queue",
    quantile=0.9,
    cores=4.0,
    interference=0.08,
    service_scale=1.0,
    overhead_s=0.001,
    service_variance=0.1,
    speed_variance=0.5,
    window_s=90.0,
    runs=180,
    trees=[Tree([1, 0, 0], [0.5, 0.0, 0.0], [1, -1, -1], [2, -1, -1], [0.0, -0.1, 0.2])],
)


def test_the_file_comes_back() -> None:
    found, model = decode(encode(FILE))
    assert found == FILE
    topics = [(0.02, 20.0, 0, 1.0, 0.9)]
    columns = [list(each) for each in zip(*topics, strict=True)]
    assert Candidates(model, *columns).latencies([0]) == pytest.approx(
        Candidates(FILE.model(), *columns).latencies([0])
    )


def test_a_key_of_a_later_version_is_ignored() -> None:
    said = {**json.loads(encode(FILE)), "colour": "red"}
    assert decode(json.dumps(said).encode())[0] == FILE


def tree(**change: object) -> dict[str, object]:
    whole = json.loads(encode(FILE))["trees"][0]
    return {"trees": [{**whole, **change}]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2 of a latency model; this release reads 1"),
        ({"cores": "four"}, r"Expected `float`, got `str` - at `\$.cores`"),
        ({"cores": 0.0}, "cores = 0.0"),
        ({"discipline": "lifo"}, "Invalid enum value 'lifo'"),
        ({"window_s": -1.0}, "window_s = -1.0"),
        ({"quantile": 1.0}, "quantile = 1.0"),
        ({"interference": -0.1}, "interference"),
        (tree(left=[0, -1, -1]), "tree 0, node 0: a child is out of place"),
        (tree(left=[1, -1]), "tree 0: its lists are not of one length"),
        (tree(feature=[10, 0, 0]), "tree 0, node 0: no such feature"),
        (tree(feature=[1 << 70, 0, 0]), "tree 0, node 0: no such feature"),
        (tree(left=[1 << 70, -1, -1]), "tree 0, node 0: a child is out of place"),
        ({"trees": [{}]}, r"not a latency model: .* - at `\$.trees\[0\]`"),
        (tree(value=[0.0, 99.0, 0.0]), "value 99.0 is no logarithm"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(change: dict[str, object], said: str) -> None:
    data = json.dumps({**json.loads(encode(FILE)), **change}).encode()
    with pytest.raises(ModelError, match=said) as caught:
        decode(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"version": 1}'])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match="not a latency model"):
        decode(data)
