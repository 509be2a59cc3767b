"""Which bytes count as held by a connection, and whose are too many; no socket is read."""

import random

import pytest

from agent.net.held_bytes import (
    AMPLIFICATION,
    AMPLIFIED_BYTES,
    LITTLE_HELD_BYTES,
    MAX_HELD_BY_ONE_BYTES,
    MAX_HELD_BYTES,
    MAX_UNREAD_BY_ONE_BYTES,
    SMALL_BYTES,
    Bounds,
    ByteAccounting,
    Held,
    excess,
)

MIB = 1 << 20


def test_whoever_holds_most_is_cut_until_the_rest_is_well_within_bounds():
    held = {n: n for n in range(1, 11)}
    assert [cut.fd for cut in excess(held, most_of_one=100, most=50)] == [10, 9]
    assert [cut.fd for cut in excess(held, most_of_one=100, most=48)] == [10, 9]
    assert [cut.fd for cut in excess(held, most_of_one=100, most=47)] == [10, 9, 8]
    assert excess(held, most_of_one=100, most=55) == []
    assert [cut.fd for cut in excess(held, most_of_one=8, most=1_000)] == [9, 10]
    assert [cut.fd for cut in excess(held, most_of_one=8, most=35)] == [9, 10, 8, 7]


def test_small_holders_are_never_cut_before_larger_ones():
    draw = random.Random(3)
    for _ in range(200):
        held = {n: draw.randrange(1, 1_000) for n in range(draw.randrange(1, 40))}
        cut = {each.fd for each in excess(held, most_of_one=900, most=5_000)}
        kept = [size for fd, size in held.items() if fd not in cut]
        assert sum(kept) <= 5_000
        if cut and kept:
            assert max(kept) <= min(held[fd] for fd in cut)


def test_what_is_sent_and_what_is_not_read_have_bounds_of_their_own():
    bounds = Bounds(50 * MIB)
    held = {
        4: Held(MAX_HELD_BY_ONE_BYTES, MAX_UNREAD_BY_ONE_BYTES),
        5: Held(MAX_HELD_BY_ONE_BYTES + 1, 0),
        6: Held(0, MAX_UNREAD_BY_ONE_BYTES + 1),
    }
    sent, unread = bounds.beyond(held, 50 * MIB)
    assert ([each.fd for each in sent], [each.fd for each in unread]) == ([5], [6])


def test_messages_that_take_much_more_than_they_have_are_bounded_by_what_they_take():
    """Empty ones come in two bytes and take 64."""
    bounds, sent = Bounds(50 * MIB), 0
    while not bounds.beyond({9: Held(sent, 0)}, 50 * MIB + AMPLIFICATION * sent)[0]:
        sent += 10_000
    assert AMPLIFICATION * sent <= AMPLIFIED_BYTES + AMPLIFICATION * LITTLE_HELD_BYTES + 3 * MIB


def test_what_the_process_grew_by_before_is_not_of_what_connections_hold_now():
    bounds, held = Bounds(50 * MIB), {9: Held(MAX_HELD_BYTES // AMPLIFICATION + MIB, 0)}
    bounds.little_is_held(0, 500 * MIB)
    assert bounds.beyond(held, 500 * MIB + AMPLIFIED_BYTES) == ([], [])
    bounds.little_is_held(LITTLE_HELD_BYTES + 1, 900 * MIB)
    assert bounds.beyond(held, 900 * MIB)[0]


def test_headers_and_heartbeats_are_not_held_and_an_endless_message_is():
    accounting = ByteAccounting()
    accounting.opened(9)
    assert accounting.held(9, 200, 0.0, 0) == 200  # a handshake
    accounting.taken[9] += 1_000
    assert accounting.held(9, 1_300, 0.0, 0) == 0  # a message and its headers
    for read in range(1_400, 50_000, 100):
        assert accounting.held(9, read, 0.0, 0) == read - 1_300  # nothing complete came
    accounting.taken[9] += 100
    assert accounting.held(9, 50_000, 0.0, 0) == 0
    assert accounting.held(9, 10 * MIB, 0.0, 0) > 9 * MIB
    accounting.taken[9] += 100  # a message before it
    assert accounting.held(9, 10 * MIB, 0.0, 0) > 9 * MIB > SMALL_BYTES
    accounting.opened(9)
    assert accounting.held(9, 200, 0.0, 0) == 200


def test_heartbeats_are_not_held_and_forgiven_with_the_next_message():
    """Another master that is asked nothing for a day sends only these."""
    accounting = ByteAccounting()
    accounting.opened(9)
    read, now = 200, 1e6
    accounting.taken[9] += 1_000
    read += 1_000
    assert accounting.held(9, read, now, 0) == 0
    for _ in range(86_400):
        read, now = read + 21, now + 1.0
        assert accounting.held(9, read, now, 0) == 0
    read, now = read + 500 + 21, now + 1.0
    accounting.taken[9] += 500
    assert accounting.held(9, read, now, 0) == 0
    # What comes as fast as data does is none.
    for _ in range(100):
        read, now = read + 10_000, now + 1.0
        assert accounting.held(9, read, now, 0) > 0
    accounting.taken[9] += 500
    assert accounting.held(9, read, now, 0) > SMALL_BYTES


# With keys a ping, and the reply to one, in each direction.
BEAT_BYTES, BEAT_S = 2 * 42, 2.0


def after_days(accounting, links, days, resident=lambda _sent: 50 * MIB, beat=BEAT_BYTES):
    """Let the links beat; when the first was cut, in seconds, or None."""
    read, bounds = 0, Bounds(50 * MIB)
    for beats in range(1, round(days * 86_400.0 / BEAT_S)):
        read += beat
        now = beats * BEAT_S
        held = {fd: Held(accounting.held(fd, 500 + read, now, resident(read)), 0) for fd in links}
        if bounds.beyond(held, resident(read))[0]:
            return now
    return None


@pytest.mark.long
def test_links_that_are_idle_for_ten_days_live_on():
    accounting = ByteAccounting()
    links = (7, 8, 9)
    for fd in links:
        accounting.opened(fd)
        accounting.held(fd, 500, 0.0, 50 * MIB)
    accounting.taken[7] += 300  # the others never said a word
    assert after_days(accounting, links, days=10.0) is None


def test_a_message_that_comes_as_slowly_as_heartbeats_ends_when_it_takes_memory():
    """Parts of no bytes come in two and take 64."""
    accounting = ByteAccounting()
    accounting.opened(9)
    accounting.held(9, 500, 0.0, 50 * MIB)
    cut = after_days(accounting, (9,), days=3.0, resident=lambda sent: 50 * MIB + 32 * sent)
    assert cut is not None
    assert cut * BEAT_BYTES / BEAT_S < 9 * MIB


def test_what_came_before_the_first_look_came_as_fast_as_it_likes():
    accounting = ByteAccounting()
    accounting.opened(9)
    assert accounting.held(9, MIB, 1e6, 0) == MIB
    accounting.taken[9] += 100
    assert accounting.held(9, MIB, 1e6 + 1.0, 0) > MIB / 2
