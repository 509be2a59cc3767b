"""A notification for many subscriptions of a connection: few messages, and each its own order."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from agent.alerts.coalesce import together
from agent.alerts.inbox_events import SendPush
from agent.wire.push import MAX_TOGETHER, Gap, Notified, ShortContent, ShortNotified
from tests.alerts.samples import notification

# What they are compared by: one that is equal is another one.
CONTENTS = [notification(sequence) for sequence in range(4)]


def run(name, *contents, peer="p", waits=False, first=1):
    return [
        SendPush(peer, Notified(name, position, CONTENTS[content]), waits)
        for position, content in enumerate(contents, first)
    ]


def in_short(runs):
    """The same for clients that asked for the short form; subscription s7 has the number 7."""
    shorts = [ShortContent("iad1", bytes(8), each, 0, (), ()) for each in range(len(CONTENTS))]
    return [
        [
            SendPush(
                each.peer,
                ShortNotified(
                    ((int(each.message.id[1:]), each.message.position),),
                    shorts[CONTENTS.index(each.message.notification)],
                ),
                each.waits,
            )
            for each in run_
        ]
        for run_ in runs
    ]


def long_again(message):
    (number, position), *more = message.to
    also = tuple((f"s{each}", place) for each, place in more)
    return Notified(f"s{number}", position, CONTENTS[message.of.sequence], also)


def test_several_subscriptions_of_a_connection_get_one_message():
    assert together([run("a", 0), run("b", 0, first=7), run("c", 0, peer="q")]) == [
        SendPush("p", Notified("a", 1, CONTENTS[0], (("b", 7),)), waits=False),
        SendPush("q", Notified("c", 1, CONTENTS[0]), waits=False),
    ]


def test_what_waits_for_the_disk_does_not_hold_up_the_rest():
    durable, volatile = run("a", 0, waits=True), run("b", 0)
    assert together([durable, volatile]) == [*durable, *volatile]


def test_nothing_comes_before_what_its_subscription_got_before_it():
    gap = SendPush("p", Gap("b", 1, 3), waits=False)
    runs = [run("a", 0, 1), [gap, *run("b", 1, first=4)], run("c", 1, 0)]
    messages = [each.message for each in together(runs)]
    assert messages == [
        Notified("a", 1, CONTENTS[0]),
        Notified("a", 2, CONTENTS[1]),
        Gap("b", 1, 3),
        Notified("b", 4, CONTENTS[1], (("c", 1),)),
        Notified("c", 2, CONTENTS[0]),
    ]


def test_a_message_has_an_end():
    sent = together([run(f"s{each}", 0) for each in range(2 * MAX_TOGETHER + 1)])
    assert [len(each.message.also) for each in sent] == [MAX_TOGETHER - 1] * 2 + [0]


@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.booleans(), st.lists(st.integers(0, 3), max_size=5)),
        max_size=8,
    )
)
def test_each_subscription_gets_what_it_would_get_alone(given):
    runs = [
        run(f"s{n}", *contents, peer=peer, waits=waits)
        for n, (peer, waits, contents) in enumerate(given)
    ]
    sent = together(runs)
    short = together(in_short(runs))
    assert [SendPush(each.peer, long_again(each.message), each.waits) for each in short] == sent
    got = defaultdict(list)
    for each in sent:
        for message in each.message.apart():
            got[message.id].append(SendPush(each.peer, message, each.waits))
    assert got == {each[0].message.id: each for each in runs if each}
