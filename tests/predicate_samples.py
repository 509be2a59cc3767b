"""Predicates, conjunctions and events of a small world, where much is equal, covers and matches.

For hypothesis as strategies of plain tuples and of structs; for long campaigns the same from a
`random.Random`, some hundred times as fast.
"""

from hypothesis import settings
from hypothesis import strategies as st

from agent.wire.predicates import Predicate

ATTRIBUTES = ("value", "area", "metric", "ok")
NUMBERS = (-1e300, -2.5, -1, 0, -0.0, 1, 1.0, 1.5, 2, 2**53, 2.0**53 + 2, 1e300)
STRINGS = ("", "a", "ab", "b", "b1", "b1/f4", "b1/f41", "b1/f4/r413", "b1/", "é", "\U0010ffff")
AREAS = ("a", "b1", "b1/f4", "b1/f41", "b1/f4/r413")
BOOLEANS = (True, False)
VALUES = NUMBERS + STRINGS + BOOLEANS
ORDER = ("<", "<=", ">", ">=")
OPERATORS = ("=", "!=", *ORDER, "prefix", "under", "in", "present")

# A busy machine is no reason to fail.
unhurried = settings(deadline=None)

# Mostly from the pool, so that things meet.
numbers = st.sampled_from(NUMBERS) | st.integers(-3, 3) | st.floats(-4, 4)
strings = st.sampled_from(STRINGS) | st.text("ab1/", max_size=4)
values = st.sampled_from(VALUES) | numbers | strings | st.booleans()
attributes = st.sampled_from(ATTRIBUTES)


def operands(operator):
    """What may stand after an operator."""
    if operator == "present":
        return st.just(())
    if operator == "in":
        return st.lists(values, min_size=1, max_size=4).map(tuple)
    one = {"under": st.sampled_from(AREAS), "prefix": strings}
    one |= dict.fromkeys(ORDER, numbers | strings)
    return st.tuples(one.get(operator, values))


predicates = st.sampled_from(OPERATORS).flatmap(
    lambda operator: st.tuples(attributes, st.just(operator), operands(operator))
)
conjunctions = st.lists(predicates, max_size=5).map(tuple)
# All on one attribute: what covers, intersects and contradicts is decided there.
on_one_attribute = st.lists(predicates, max_size=6).map(
    lambda many: tuple(("x", operator, operands) for _, operator, operands in many)
)
events = st.dictionaries(attributes, values, max_size=len(ATTRIBUTES))

# The same as structs, as decoded from a message.
predicate_structs = predicates.map(lambda each: Predicate(*each))
conjunction_structs = st.lists(predicate_structs, max_size=5).map(tuple)
filters = st.lists(conjunction_structs, min_size=1, max_size=4).map(tuple)


def random_predicate(rng):
    """A plain predicate."""
    operator = rng.choice(OPERATORS)
    if operator == "present":
        chosen = ()
    elif operator == "in":
        chosen = tuple(rng.choices(VALUES, k=rng.randint(1, 4)))
    else:
        pool = {"under": AREAS, "prefix": STRINGS} | dict.fromkeys(ORDER, NUMBERS + STRINGS)
        chosen = (rng.choice(pool.get(operator, VALUES)),)
    return rng.choice(ATTRIBUTES), operator, chosen


def random_conjunction(rng, most=5):
    """A plain conjunction of at most so many predicates."""
    return tuple(random_predicate(rng) for _ in range(rng.randint(0, most)))


def random_event(rng):
    """Attributes by name."""
    return {name: rng.choice(VALUES) for name in ATTRIBUTES if rng.random() < 0.8}
