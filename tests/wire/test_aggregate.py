"""Which numbers an aggregate of a channel may have: every combination, beside the plain rule."""

import itertools

from agent.wire.messages import ChannelAggregate


def is_valid(count, numbers, last, last_ms):
    there = sum(number is not None for number in numbers)
    if there != (3 if count else 0):
        return False
    return (last is None) == (last_ms is None) and (last is None or there == 3)


def test_only_what_belongs_together_is_an_aggregate():
    either = (None, 0.0), (None, 1.0), (None, 2.0), (None, 1.0), (None, 5)
    for count, *others in itertools.product((0, 7), *either):
        low, mean, high, last, last_ms = others
        try:
            ChannelAggregate(count, low, mean, high, last=last, last_ms=last_ms)
            accepted = True
        except ValueError:
            accepted = False
        assert accepted == is_valid(count, (low, mean, high), last, last_ms), (count, others)
