"""Matching by going through all predicates, covering and intersection by trying out values.

A predicate is a `Predicate` or the plain tuple (attribute, operator, operands). Exact, not
one-sided, where an event may have any double but NaN, infinite ones too, and any string of code
points, however long: what a set of predicates on one attribute allows is booleans, and intervals
without some points. An interval of doubles or strings has a least value, and each value a next one;
so if anything is allowed at all, then the least value above one of the ends, or one that follows
it within as many steps as there are points to leave out.
"""

import math
from collections import defaultdict

LAST = chr(0x10FFFF)


def plain(predicate):
    """As a tuple."""
    if isinstance(predicate, tuple):
        return predicate
    return predicate.attribute, predicate.operator, predicate.operands


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def equal(value, operand):
    if kind(value) != kind(operand):
        return False
    return float(value) == float(operand) if kind(value) == "number" else value == operand


def ordered(value, operand, operator):
    if kind(value) != kind(operand) or kind(value) == "boolean":
        return False
    if kind(value) == "number":
        value, operand = float(value), float(operand)
    return {
        "<": value < operand,
        "<=": value <= operand,
        ">": value > operand,
        ">=": value >= operand,
    }[operator]


def fulfils(value, operator, operands):
    """Whether an attribute that is there fulfils a predicate."""
    if operator == "present":
        return True
    if value != value:
        return False
    if operator == "in":
        return any(equal(value, operand) for operand in operands)
    (operand,) = operands
    if operator == "=":
        return equal(value, operand)
    if operator == "!=":
        return not equal(value, operand)
    if operator == "prefix":
        return kind(value) == "string" and value.startswith(operand)
    if operator == "under":
        return kind(value) == "string" and (value == operand or value.startswith(operand + "/"))
    return ordered(value, operand, operator)


def holds(conjunction, event):
    """Whether the event fulfils all predicates."""
    return all(
        attribute in event and fulfils(event[attribute], operator, operands)
        for attribute, operator, operands in map(plain, conjunction)
    )


def intersects(a, b):
    """Whether some event fulfils both conjunctions."""
    return satisfiable([*a, *b])


def satisfiable(conjunction):
    """Whether some event fulfils it."""
    return all(some_value(predicates) for predicates in by_attribute(conjunction).values())


def covers(general, special):
    """Whether every event that fulfils `special` fulfils `general`; so if there is none."""
    if not satisfiable(special):
        return True
    asked = by_attribute(special)
    return all(
        attribute in asked and not some_value(asked[attribute], but=predicates)
        for attribute, predicates in by_attribute(general).items()
    )


def by_attribute(conjunction):
    grouped = defaultdict(list)
    for attribute, operator, operands in map(plain, conjunction):
        grouped[attribute].append((operator, operands))
    return grouped


def some_value(predicates, but=None):
    """Whether a value fulfils `predicates`, and not all of `but` if that is given."""
    return any(
        all(fulfils(value, *predicate) for predicate in predicates)
        and (but is None or not all(fulfils(value, *predicate) for predicate in but))
        for value in witnesses([*predicates, *(but or ())])
    )


def witnesses(predicates):
    """Values among which is one of each set that the predicates and their opposites make."""
    operands = [operand for _, operands in predicates for operand in operands]
    steps = len(operands) + 1
    yield from (True, False)
    for end in {-math.inf, *number_ends(operands)}:
        number = end
        for _ in range(steps):
            yield number
            number = math.nextafter(number, math.inf)
    for end in {"", *string_ends(operands)}:
        for step in range(steps):
            yield end + "\0" * step


def number_ends(operands):
    for operand in operands:
        if kind(operand) == "number":
            yield float(operand)
            yield math.nextafter(float(operand), math.inf)


def string_ends(operands):
    for operand in operands:
        if kind(operand) == "string":
            # Itself, and what comes after it; the first area below it; what comes after all that
            # begin so; and after all areas below it.
            yield from (operand, operand + "\0", operand + "/", operand + "0")
            if operand.strip(LAST):
                yield after_all_that_begin_with(operand)


def after_all_that_begin_with(prefix):
    prefix = prefix.rstrip(LAST)
    last = ord(prefix[-1]) + 1
    # Surrogates are no characters.
    return prefix[:-1] + chr(0xE000 if last == 0xD800 else last)
