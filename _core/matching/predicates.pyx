"""Conjunctions of predicates as intervals, and their relations: covers, intersects.

`agent.wire.predicates` defines the semantics of predicates. The successor of a string is the string
with a 0 appended.
"""

from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport uint64_t

from _core.matching.intervals cimport (
    BOOLEANS_END,
    BOTH,
    EITHER,
    FALSE_KEY,
    FIRST_ONLY,
    NUMBERS_END,
    NUMBERS_START,
    STRINGS_END,
    STRINGS_START,
    IntervalSet,
    Point,
    kind_of,
    next_number,
    point_of,
    intervals_combine,
    intervals_contain,
    intervals_meet,
)

cdef str LAST_CHARACTER = chr(0x10FFFF)


cdef IntervalSet _equal(object operand):
    cdef IntervalSet allowed = IntervalSet()
    cdef Point point
    if PyUnicode_Check(operand):
        allowed.add_strings(operand, operand + "\0")
        return allowed
    point_of(operand, &point)
    if point.key < BOOLEANS_END:
        allowed.add_keys(point.key, point.key + 1)
    else:
        allowed.add_keys(point.key, next_number(point.key))
    return allowed


cdef IntervalSet _any_of(operands):
    cdef IntervalSet allowed = IntervalSet()
    for operand in operands:
        allowed = allowed.combined(_equal(operand), EITHER)
    return allowed


cdef IntervalSet _not_equal(object operand):
    cdef IntervalSet anything = IntervalSet()
    anything.add_keys(FALSE_KEY, NUMBERS_END)  # all but NaN
    anything.add_keys(STRINGS_START, STRINGS_END)
    return anything.combined(_equal(operand), FIRST_ONLY)


cdef IntervalSet _ordered(str operator, object operand):
    """The values before or after a number or a string."""
    cdef IntervalSet allowed = IntervalSet()
    cdef Point point
    cdef uint64_t after
    if PyUnicode_Check(operand):
        if operator[0] == "<":
            if operand or operator == "<=":
                allowed.add_strings("", operand + "\0" if operator == "<=" else operand)
        else:
            allowed.add_strings(operand + "\0" if operator == ">" else operand, None)
        return allowed
    point_of(operand, &point)
    after = next_number(point.key)
    if operator[0] == "<":
        after = after if operator == "<=" else point.key
        if after > NUMBERS_START:
            allowed.add_keys(NUMBERS_START, after)
    else:
        after = after if operator == ">" else point.key
        if after < NUMBERS_END:
            allowed.add_keys(after, NUMBERS_END)
    return allowed


cdef IntervalSet _prefix(str operand):
    """From the prefix to before the next string that neither begins with it nor precedes it."""
    cdef IntervalSet allowed = IntervalSet()
    cdef str kept = operand.rstrip(LAST_CHARACTER)
    cdef str end = None
    cdef int last
    if kept:
        last = ord(kept[len(kept) - 1]) + 1
        # Surrogates are not characters.
        end = kept[:len(kept) - 1] + chr(0xE000 if last == 0xD800 else last)
    allowed.add_strings(operand, end)
    return allowed


cdef IntervalSet _under(str operand):
    cdef IntervalSet below = IntervalSet()
    below.add_strings(operand + "/", operand + "0")  # what follows / in the order of characters
    return _equal(operand).combined(below, EITHER)


cdef IntervalSet _allowed(str operator, tuple operands):
    """The values that a valid predicate allows."""
    cdef IntervalSet everything
    if operator == "present":
        everything = IntervalSet()
        everything.add_keys(FALSE_KEY, STRINGS_END)
        return everything
    if operator == "in":
        return _any_of(operands)
    if operator == "=":
        return _equal(operands[0])
    if operator == "!=":
        return _not_equal(operands[0])
    if operator == "prefix":
        return _prefix(operands[0])
    if operator == "under":
        return _under(operands[0])
    return _ordered(operator, operands[0])


cdef str _wrong(str operator, tuple operands):
    """The error in a predicate; None if it is valid."""
    if operator not in ("=", "!=", "<", "<=", ">", ">=", "prefix", "under", "in", "present"):
        return "is no operator"
    if operator == "present":
        return "takes no value" if operands else None
    if operator == "in" and not operands:
        return "needs a value at least"
    if operator != "in" and len(operands) != 1:
        return f"takes one value, not {len(operands)}"
    for operand in operands:
        if not isinstance(operand, bool | int | float | str):
            return f"takes a bool, an int, a float or a str, not {kind_of(operand)}"
        if isinstance(operand, float) and operand != operand:
            return "cannot compare with NaN"
    if operator in ("prefix", "under") and not isinstance(operands[0], str):
        return f"takes a str, not {kind_of(operands[0])}"
    if operator in ("<", "<=", ">", ">=") and isinstance(operands[0], bool):
        return "takes a number or a str, not bool"
    return None


cdef dict read_conjunction(object conjunction):
    cdef dict allowed = {}
    cdef IntervalSet more, known
    for predicate in conjunction:
        try:
            attribute, operator, operands = predicate
        except (TypeError, ValueError):
            raise ValueError(
                f"a predicate is (attribute, operator, operands), not {predicate!r:.80}"
            ) from None
        if not (isinstance(attribute, str) and isinstance(operator, str)):
            raise ValueError(f"attribute and operator are str, not in {predicate!r:.80}")
        if not isinstance(operands, tuple | list):
            raise ValueError(f"predicate on {attribute}: operands are a sequence")
        operands = tuple(operands)
        wrong = _wrong(operator, operands)
        if wrong is not None:
            raise ValueError(f"predicate on {attribute}: {operator} {wrong}")
        more = _allowed(operator, operands)
        known = allowed.get(attribute)
        allowed[attribute] = more if known is None else known.combined(more, BOTH)
    return allowed


def holds(conjunction, event):
    """Whether an event ({attribute: value}) fulfils all predicates of a conjunction.

    ValueError for an invalid predicate. O(predicates); use `engine.Conjunctions` for many.
    """
    cdef Point point
    cdef IntervalSet allowed
    for attribute, allowed in read_conjunction(conjunction).items():
        if attribute not in event:
            return False
        value = event[attribute]
        point_of(value, &point)
        if not intervals_contain(&allowed.intervals, &point):
            return False
    return True


def covers(general, special):
    """Whether every event that fulfils the conjunction `special` fulfils `general`: exactly, for
    events with any double or string. ValueError for a predicate that makes no sense."""
    cdef dict asked = read_conjunction(special)
    cdef IntervalSet allowed, known
    for known in asked.values():
        if known.intervals.count == 0:
            return True
    for attribute, allowed in read_conjunction(general).items():
        known = asked.get(attribute)
        if known is None or intervals_combine(
            &known.intervals, &allowed.intervals, FIRST_ONLY, NULL
        ):
            return False
    return True


def intersects(a, b):
    """Whether some event fulfils both conjunctions: exactly, for events with any double or string.
    ValueError for a predicate that makes no sense."""
    cdef dict first = read_conjunction(a)
    cdef dict second = read_conjunction(b)
    cdef IntervalSet allowed, other
    for allowed in [*first.values(), *second.values()]:
        if allowed.intervals.count == 0:
            return False
    for attribute, allowed in first.items():
        other = second.get(attribute)
        if other is not None and not intervals_meet(&allowed.intervals, &other.intervals):
            return False
    return True
