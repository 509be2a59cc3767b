"""Sets of nodes of a model: interned, invalidated, refused by others, and given back."""

import ctypes
import gc
import tracemalloc
from typing import ClassVar

import pytest

from _core.deadlines.order_statistics import NodeSet, UnloadedModel
from tests.core.order_statistics_models import filled

# Nodes and sets.


def test_node_sets_are_interned() -> None:
    model = UnloadedModel()
    for _ in range(5):
        model.add_node()
    nodes = model.node_set([3, 1, 4])
    assert nodes is model.node_set((1, 3, 4))
    assert nodes.columns == (1, 3, 4)
    assert len(nodes) == 3
    assert nodes is not model.node_set([1, 3])


@pytest.mark.parametrize("columns", [[], [0, 0], [0, 1, 0], [2], [-1], [0, 999], [2**31], [2**70]])
def test_impossible_node_sets(columns: list[int]) -> None:
    model = UnloadedModel()
    model.add_node()
    model.add_node()
    with pytest.raises(ValueError):
        model.node_set(columns)


def test_forgotten_sets_still_answer() -> None:
    model = UnloadedModel()
    for _ in range(60):
        model.add_node()
    first = model.node_set([0, 1])
    before = model.quantile(first, 99.0, 0.0)
    for a in range(60):
        for b in range(a + 1, 60):
            model.node_set([a, b])
    assert model.node_set([0, 1]) is not first
    assert model.quantile(first, 99.0, 0.0) == before


def test_removed_node_invalidates_its_sets_even_when_its_column_is_reused() -> None:
    model = UnloadedModel()
    filled(model, [[0.1], [0.2], [0.3]])
    both, other = model.node_set([0, 1]), model.node_set([0, 2])
    model.quantile(both, 99.0, 0.0)
    model.remove_node(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="removed"):
            model.quantile(both, 99.0, 0.0)
        with pytest.raises(ValueError, match="removed"):
            model.min_count(both)
        assert model.quantile(other, 99.0, 0.0) > 0.0
    with pytest.raises(ValueError, match="column 1"):
        model.node_set([0, 1])
    with pytest.raises(ValueError, match="column 1"):
        model.observe(1, 0.1, 0.0)
    assert model.add_node() == 1
    assert model.node_count(1) == 0
    with pytest.raises(ValueError, match="removed"):
        model.quantile(both, 99.0, 0.0)
    again = model.node_set([0, 1])
    assert again is not both
    assert model.min_count(again) == 0


def test_a_set_of_another_model_is_refused() -> None:
    one, other = UnloadedModel(), UnloadedModel()
    nodes = filled(one, [[0.1]])
    filled(other, [[0.1]])
    with pytest.raises(ValueError, match="another model"):
        other.quantile(nodes, 99.0, 0.0)


def test_a_set_is_only_made_by_its_model() -> None:
    with pytest.raises(TypeError):
        NodeSet()


# Memory.


def test_models_and_sets_leave_nothing_behind() -> None:
    def use() -> None:
        model = UnloadedModel(max_count=50)
        for i in range(40):
            model.observe(model.add_node(), 0.1, float(i))
        for i in range(30):
            model.quantile(model.node_set([i, i + 5]), 99.0, 40.0)
        for i in range(0, 40, 2):
            model.remove_node(i)

    use()
    gc.collect()
    tracemalloc.start()
    use()
    gc.collect()
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        use()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 2_000


class MallInfo(ctypes.Structure):
    """struct mallinfo2 of malloc.h."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            [
                "arena",
                "ordblks",
                "smblks",
                "hblks",
                "hblkhd",
                "usmblks",
                "fsmblks",
                "uordblks",
                "fordblks",
                "keepcost",
            ]
        )
    ]


def c_bytes() -> int:
    """What malloc has given out and not got back."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = MallInfo
    info = libc.mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)


def test_c_memory_is_given_back() -> None:
    def use() -> None:
        model = UnloadedModel(max_count=2_000)
        for _ in range(40):
            column = model.add_node()
            for i in range(500):
                model.observe(column, 0.1, i * 0.01)
        model.quantile(model.node_set(range(40)), 99.0, 5.0)
        for column in range(40):
            model.remove_node(column)
            assert model.add_node() == column

    use()
    before = c_bytes()
    for _ in range(20):
        use()  # takes 0.7 MB
    assert c_bytes() - before < 100_000
