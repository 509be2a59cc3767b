"""What another IAD says of its areas, hostile or mistaken: it harms these only."""

import pytest
from msgspec.structs import replace

from agent.scheduling.events import TaskReturned
from agent.scheduling.watches.rounds import aggregate_of
from agent.wire import messages as m
from agent.wire.codec import MESSAGEPACK, Decoder, encode
from agent.wire.market import Member
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.unions import ClientReply
from tests.scheduling.oracle import aggregate
from tests.scheduling.rigs import QueryRig

POOL = (
    Member("iad1", "tcp://127.0.0.1:1", ("b1/f1",)),
    Member("iad2", "tcp://127.0.0.1:2", ("b1/f1", "b1/f2")),
)


def series(*times_ms):
    return m.Series(Int64Column.of(times_ms), {"t": Float32Column.of([20.0] * len(times_ms))})


IMPOSSIBLE = [
    {"series": series(2**63 - 1)},
    {"series": series(0, -(2**63), 1)},
    {"series": replace(series(0, 1), source_time_ms=Int64Column.of([-(2**63), 1]))},
    {"aggregate": replace(aggregate(20.0), last_ms=2**53 - 1)},
]


@pytest.mark.parametrize("told", IMPOSSIBLE)
def test_a_result_of_another_iad_that_cannot_be_true_is_a_gap(told):
    rig = QueryRig(POOL)
    [form] = told
    rig.ask("b1", form=form)
    tasks = dict(rig.tasks)
    honest = {"series": series(0, 1)} if form == "series" else {"aggregate": aggregate(21.0)}
    for iad, contents in (
        ("iad1", {"b1/f1/r1": told}),
        ("iad2", {"b1/f1/r1": honest, "b1/f2/r1": honest}),
    ):
        found = tuple([m.AreaResult(area, **content) for area, content in contents.items()])
        result = m.TaskResult(tasks[iad].id, "complete", 1.0, found)
        rig.do(TaskReturned(iad, result), 0.1)
    [answer] = rig.answers
    assert [each.area for each in answer.results] == ["b1/f1/r1", "b1/f2/r1"]
    for each in answer.results:
        assert {form: getattr(each, form)} == honest
    assert answer.status == "complete"
    assert Decoder(ClientReply).decode(encode(answer, MESSAGEPACK))[0] == answer


def test_an_area_that_only_such_an_iad_has_is_missing_with_the_reason():
    rig = QueryRig(POOL[:1])
    rig.ask("b1", form="series")
    [(_, task)] = rig.tasks
    found = (m.AreaResult("b1/f1/r1", series=series(0, 2**60, 1)),)
    rig.do(TaskReturned("iad1", m.TaskResult(task.id, "complete", 1.0, found)), 0.1)
    [answer] = rig.answers
    [gap] = answer.missing
    assert (gap.area, gap.reason, answer.status) == ("b1/f1/r1", "node_error", "partial")
    assert gap.message.startswith("a result of iad1 that cannot be true: 1152921504606846976 ms")


def test_whatever_passes_has_an_aggregate_that_a_message_may_say():
    made = aggregate_of(series(5, 3, 9))
    answer = m.Answer("q", "complete", 1.0, True, m.Coverage(1, 1),
                      (m.AreaResult("b1", aggregate=made),))  # fmt: skip
    assert Decoder(ClientReply).decode(encode(answer, MESSAGEPACK))[0] == answer
