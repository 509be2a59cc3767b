"""Any well-formed result, of another IAD or of a node, makes an answer that clients can read.

Its contents are drawn from all that the wire's types allow: no time, order, length, channel, area
or combination of forms ends a master, or makes an area complete that lacks what was asked.
"""

from math import inf, nan
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.scheduling.events import ANYONE, QueryArrived, ServiceChanged, TaskArrived, TaskReturned
from agent.scheduling.watches.events import RoundAnswered
from agent.triggers.language import read_trigger
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.about import About, ChannelInfo, Raised
from agent.wire.areas import overlaps
from agent.wire.base import MAX_COUNTED, QueryForm
from agent.wire.buckets import MAX_CELLS, Buckets, ChannelBuckets
from agent.wire.codec import JSON, MESSAGEPACK, Decoder, encode
from agent.wire.market import Member, Service
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from agent.wire.unions import ClientReply, PeerReply
from agent.wire.watches import Round
from tests.examples import examples
from tests.scheduling.rigs import QueryRig, TaskRig
from tests.scheduling.watch_rig import T0, Rig, watch

FORMS = get_args(QueryForm)
NOW_MS = round(T0 * 1e3) + 60_000  # where the window ends
LENGTH_MS = 12_000  # of five buckets of the minute that is asked
# Asked is b1/f1, of which a result may be, or of a part, or of what is above or elsewhere.
ASKED = "b1/f1"
AREAS = st.sampled_from((*("b1/f1/r1", "b1/f1/r2") * 4, ASKED, "b1", "b1/f2", "b2"))
CHANNELS = st.sampled_from(("t", "t_raw", "u"))
COUNTS = st.sampled_from((0, 1, 2, 2**32, MAX_COUNTED))
NUMBERS = st.sampled_from((0.0, 20.0, 20.5, -1.0, 5e-324, 1e300, -1e300))
FLOATS = st.sampled_from((*(20.5, 21.0) * 4, 0.0, -1.0, 3e38, -3e38, 1e-45, nan, inf))
NEAR_MS = [NOW_MS - 60_000 + n * LENGTH_MS for n in range(-1, 6)]
FAR_MS = (0, 7_258_118_399_999)
# Mostly times of the window: of few readings one that cannot be is seen often enough.
WALL_MS = st.sampled_from((*NEAR_MS * 4, *FAR_MS, -1, 2**53 - 1, 1 - 2**53))
TIMES = st.sampled_from((*NEAR_MS * 4, *FAR_MS, -(2**63), 2**63 - 1))
TEXTS = st.sampled_from(("", "x", "$.form"))


def column(kind, items, length):
    return st.lists(items, min_size=length, max_size=length).map(kind.of)


@st.composite
def series(draw):
    length = draw(st.integers(0, 4))

    def columns(kind, items):
        return column(kind, items, length)

    return m.Series(
        draw(columns(Int64Column, TIMES)),
        draw(st.dictionaries(CHANNELS, columns(Float32Column, FLOATS), min_size=1, max_size=2)),
        draw(st.none() | columns(Int64Column, TIMES)),
        draw(st.dictionaries(CHANNELS, columns(UInt8Column, st.integers(0, 255)), max_size=2)),
        draw(st.none() | columns(UInt32Column, st.integers(0, 2**32 - 1))),
    )


@st.composite
def channel_aggregates(draw):
    if not (count := draw(COUNTS)):
        return m.ChannelAggregate(0, bad=draw(COUNTS), suspect=draw(COUNTS))
    extent = draw(st.lists(NUMBERS, min_size=3, max_size=3).map(sorted) | st.tuples(*[NUMBERS] * 3))
    newest = draw(st.just((None, None)) | st.tuples(NUMBERS, WALL_MS))
    return m.ChannelAggregate(count, *extent, draw(COUNTS), draw(COUNTS), *newest)


@st.composite
def buckets(draw):
    length = draw(st.sampled_from((0, 1, 2, 5, 6)))
    numbers = column(UInt32Column, st.sampled_from((0, 1, 2**32 - 1)), length)
    floats = column(Float32Column, FLOATS, length)
    extra = st.none() | numbers
    channel = st.builds(ChannelBuckets, numbers, floats, floats, floats, extra, extra)
    channels = draw(st.dictionaries(CHANNELS, channel, max_size=2))
    if draw(st.integers(0, 9)) == 0:
        zeros = bytes(4 * MAX_CELLS)
        many = [UInt32Column(zeros), *[Float32Column(zeros)] * 3]
        channels = dict.fromkeys(channels, ChannelBuckets(*many))
    length_ms = draw(st.just(LENGTH_MS) | st.sampled_from((1, LENGTH_MS + 1, 2**53 - 1)))
    return Buckets(draw(WALL_MS), length_ms, channels)


CONTENTS = {
    "series": series(),
    "aggregate": st.builds(
        m.Aggregate, WALL_MS, WALL_MS, st.dictionaries(CHANNELS, channel_aggregates(), max_size=2)
    ),
    "buckets": buckets(),
    "about": st.builds(
        About,
        st.lists(st.builds(ChannelInfo, CHANNELS), max_size=2).map(tuple),
        st.lists(st.builds(Raised, TEXTS, WALL_MS), max_size=2).map(tuple),
        st.none() | COUNTS,
        st.booleans(),
    ),
}


def contents(form, *others):
    """Mostly what was asked alone; otherwise any of the forms, and none."""
    one = st.fixed_dictionaries({form: CONTENTS[form]})
    anything = {each: CONTENTS[each] for each in (form, *others)}
    return one | one | st.fixed_dictionaries({}, optional=anything)


def area_results(form):
    others = [each for each in FORMS if each != form]
    return st.builds(
        lambda area, told, held_from_ms, stale_ms, name: m.AreaResult(
            area, held_from_ms=held_from_ms, stale_ms=stale_ms, name=name, **told
        ),
        AREAS,
        contents(form, *others),
        st.none() | WALL_MS,
        st.none() | st.none() | COUNTS,
        st.none() | st.just("Kitchen"),
    )


GAPS = st.builds(
    m.Missing,
    AREAS,
    st.sampled_from(get_args(m.MissingReason)),
    st.lists(CHANNELS, max_size=2).map(tuple),
    TEXTS,
    st.none() | NUMBERS,
    st.lists(AREAS, max_size=1).map(tuple),
    st.booleans(),
    st.none() | st.just("Hall"),
)


def task_results(form):
    return st.builds(
        m.TaskResult,
        st.just("id"),
        st.sampled_from(("complete", "complete", "partial", "refused")),
        NUMBERS,
        st.lists(area_results(form), max_size=4).map(tuple),
        st.lists(GAPS, max_size=2).map(tuple),
        st.none() | st.sampled_from(get_args(m.Refusal)),
        TEXTS,
        st.just(()) | st.just((m.Budget(50.0, 1.0),)),
    )


def subtask_results(form):
    others = [each for each in FORMS if each not in (form, "about")]
    return st.builds(
        lambda outcome, wait_ms, execution_ms, told, message, too_large: nm.SubtaskResult(
            0, outcome, wait_ms, execution_ms, message=message, too_large=too_large, **told
        ),
        st.sampled_from(("ok", "ok", "ok", "no_data", "error")),
        NUMBERS,
        NUMBERS,
        contents(form, *others),
        TEXTS,
        st.none() | st.none() | st.builds(nm.TooLarge, COUNTS, NUMBERS),
    )


@st.composite
def asked(draw, forms):
    """A query, and the rig of its watch if it is a round of one."""
    form = draw(st.sampled_from(forms))
    fields = {"form": form, "channels": draw(st.sampled_from(((), ("t",), ("t", "u"))))}
    if form in ("series", "aggregate") and draw(st.booleans()):
        trigger = draw(
            st.sampled_from(
                ("t > 20", "last(t) > 20", "last(u) < 30", "rate(t) >= 0/s or max(u) > 1")
            )
        )
        rig = Rig(read_trigger=read_trigger)
        rig.watch(watch("event", areas=(ASKED,), trigger=trigger, interval_s=60.0, **fields))
        rig.until(70.0)
        rig.watched = fields
        return rig.asked[0].query, rig
    start_ms = NOW_MS - 60_000
    window = draw(st.sampled_from((m.Window(60.0), m.Window(start_ms=start_ms, end_ms=NOW_MS))))
    if form == "buckets":
        fields["buckets"] = 5
    elif draw(st.booleans()):
        fields["stale_ok"] = True
    return m.Query("q", (ASKED,), window, m.Slo(99.0, 500.0), **fields), None


def as_decoded(message, union):
    """The message as it comes from a socket: well-formed."""
    decoded, _ = Decoder(union).decode(encode(message))
    return decoded


def check(answer, form, channels):
    """What each client may rely on."""
    live = [each for each in answer.results if each.stale_ms is None]
    told, gaps = [each.area for each in answer.results], [gap.area for gap in answer.missing]
    assert len(set(told)) == len(told)
    assert len(set(gaps)) == len(gaps)
    assert not {each.area for each in live}.intersection(gaps)
    for coverage in (answer.coverage, *[each.coverage for each in answer.tasks]):
        assert 0 <= coverage.answered <= coverage.asked
    assert answer.status == "refused" or answer.coverage.answered == len(live)
    for each in live:
        assert [name for name in FORMS if getattr(each, name) is not None] == [form]
        content = getattr(each, form)
        if form != "about":
            there = content.values if form == "series" else content.channels
            assert there
            assert not channels or set(there) <= set(channels)
    if answer.status == "complete":
        assert not answer.missing
        assert any(overlaps(ASKED, each.area) for each in live)
    # Decoding finds each number that is not finite where it should be, and each time that is none.
    for codec in (MESSAGEPACK, JSON):
        Decoder(ClientReply).decode(encode(answer, codec))


def hand_on(queries, query, watching):
    """The query's answer is as clients may rely on, and the round of its watch."""
    [answer] = queries.answers
    check(answer, query.form, query.channels)
    if watching is not None:
        [ask] = watching.asked
        watching.do(RoundAnswered(ask.token, answer))
        for told in [each for each in watching.sent if isinstance(each, Round)]:
            check(told.answer, **watching.watched)
            for codec in (MESSAGEPACK, JSON):
                Decoder(ClientReply).decode(encode(told, codec))


@given(st.data(), asked(FORMS), st.sampled_from(("one", "two", "redundant")))
@settings(max_examples=examples(600), deadline=None)
def test_any_results_of_other_iads_make_an_answer(data, made, service):
    query, watching = made
    members = [Member(f"iad{n}", f"tcp://127.0.0.1:{n}", (ASKED,)) for n in (1, 2)]
    rig = QueryRig(members[: 1 if service == "one" else 2], iad="iad3")
    if service == "redundant":
        both = Service("both", "iad3", 1, tuple(members), redundant=True)
        rig.do(ServiceChanged(both), 0.0)
        query = replace(query, service="both")
    rig.do(QueryArrived("client", query, ANYONE), 0.0)
    for iad, task in rig.tasks:
        result = replace(data.draw(task_results(query.form)), id=task.id)
        rig.do(TaskReturned(iad, as_decoded(result, PeerReply)), 0.1)
    hand_on(rig, query, watching)


@given(st.data(), asked(FORMS[:3]), st.lists(st.booleans(), min_size=1, max_size=2))
@settings(max_examples=examples(600), deadline=None)
def test_any_results_of_nodes_make_an_answer(data, made, make_buckets):
    query, watching = made
    queries = QueryRig([Member("iad1", "inproc://1", (ASKED,))], iad="iad1")
    tasks = TaskRig()
    for n, makes_buckets in enumerate(make_buckets):
        areas = ("b1/f1/r1", f"b1/f1/r{n}")
        tasks.join(f"n{n}", areas=areas, channels=("t", "u"), makes_buckets=makes_buckets)
    queries.do(QueryArrived("client", query, ANYONE), 0.0)
    [(iad, task)] = queries.tasks
    tasks.do(TaskArrived("link", task, ANYONE), 0.0)
    for peer, subtask in tasks.dispatched:
        result = replace(data.draw(subtask_results(subtask.form)), id=subtask.id)
        tasks.answer(as_decoded(result, nm.NodeMessage), peer.removeprefix("link-"), 0.1)
    [result] = tasks.results
    queries.do(TaskReturned(iad, as_decoded(result, PeerReply)), 0.1)
    hand_on(queries, query, watching)
