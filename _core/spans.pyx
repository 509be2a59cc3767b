"""What predicates allow of one attribute: spans on a line of all values.

A double's bits, the sign turned over, are an order of the doubles that leaves keys free at both
ends: booleans stand before them, and after them strings by their first six bytes in UTF-8, whose
order is that of the code points. Two equal keys of strings are decided by the whole strings.
"""

from cpython.bool cimport PyBool_Check
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_Check
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_Check
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef extern from *:
    """
    #define SIGN_BIT 0x8000000000000000ULL
    #define MINUS_ZERO 0x7FFFFFFFFFFFFFFFULL  /* the key of -0.0, where nothing stands */
    """
    const uint64_t SIGN_BIT
    const uint64_t MINUS_ZERO

cdef enum:
    KEY_BYTES = 6             # of a string, in its key

LAST_CHARACTER = chr(0x10FFFF)
# Equal to no number, as True is to 1.
cdef object HASHED_TRUE = object()
cdef object HASHED_FALSE = object()


cdef int compare_texts(const Point *a, const Point *b) noexcept nogil:
    cdef uint32_t common = min(a.length, b.length)
    cdef int order = memcmp(a.text, b.text, common) if common else 0
    if order != 0:
        return order
    return (a.length > b.length) - (a.length < b.length)


cdef inline uint64_t _number_key(double value) noexcept nogil:
    cdef uint64_t bits
    value += 0.0  # of the two zeros the positive one
    if value != value:
        return NUMBERS_END
    memcpy(&bits, &value, sizeof(double))
    return ~bits if bits & SIGN_BIT else bits | SIGN_BIT


cdef inline double _number(uint64_t key) noexcept nogil:
    cdef uint64_t bits = key & ~SIGN_BIT if key & SIGN_BIT else ~key
    cdef double value
    memcpy(&value, &bits, sizeof(double))
    return value


cdef inline uint64_t _next_number(uint64_t key) noexcept nogil:
    return SIGN_BIT if key + 1 == MINUS_ZERO else key + 1


cdef double _double(object value) except? -1.0:
    """An int as a double; what no double can hold is infinite."""
    try:
        return PyLong_AsDouble(value)
    except OverflowError:
        return INFINITY if value > 0 else -INFINITY


cdef int point_of(object value, Point *point) except -1:
    point.text = NULL
    point.length = 0
    if PyFloat_Check(value):
        point.key = _number_key(PyFloat_AS_DOUBLE(value))
    elif PyUnicode_Check(value):
        _string_point(value, point)
    elif PyBool_Check(value):
        point.key = TRUE_KEY if value else FALSE_KEY
    elif PyLong_Check(value):
        point.key = _number_key(_double(value))
    else:
        raise ValueError(f"a value is a bool, an int, a float or a str, not {_kind(value)}")
    return 0


cdef str _kind(object value):
    return type(value).__name__


cdef int _string_point(object value, Point *point) except -1:
    cdef Py_ssize_t length
    cdef const char *text
    cdef uint64_t key = 0
    cdef int i
    text = PyUnicode_AsUTF8AndSize(value, &length)
    if length > 0x7FFFFFFF:
        raise ValueError("a string of more than 2 GB")
    for i in range(KEY_BYTES):
        key = key << 8 | (<unsigned char>text[i] if i < length else 0)
    point.key = STRINGS_START + key
    point.text = text
    point.length = <uint32_t>length
    return 0


cdef bint point_copy(Point *to, const Point *point) noexcept nogil:
    cdef char *text = NULL
    if point.length:
        text = <char *>malloc(point.length)
        if text == NULL:
            return False
        memcpy(text, point.text, point.length)
    to[0] = point[0]
    to.text = text
    return True


cdef void spans_free(Spans *spans) noexcept nogil:
    cdef uint32_t i
    for i in range(spans.count):
        free(<void *>spans.points[i].text)
    free(spans.points)
    spans.points = NULL
    spans.count = 0


cdef bint _push(Spans *spans, const Point *point) noexcept nogil:
    """Append a point. Its array holds a power of two."""
    cdef void *memory
    if spans.count & (spans.count - 1) == 0:
        memory = realloc(spans.points, 2 * max(spans.count, 1) * sizeof(Point))
        if memory == NULL:
            return False
        spans.points = <Point *>memory
    if not point_copy(&spans.points[spans.count], point):
        return False
    spans.count += 1
    return True


cdef bint spans_contain(const Spans *spans, const Point *point) noexcept nogil:
    cdef uint32_t i = 0
    while i < spans.count and compare(&spans.points[i], point) <= 0:
        i += 1
    return i & 1


cdef inline bint _combined(Combination how, bint in_a, bint in_b) noexcept nogil:
    if how == BOTH:
        return in_a and in_b
    if how == EITHER:
        return in_a or in_b
    return in_a and not in_b


cdef int _combine(const Spans *a, const Spans *b, Combination how, Spans *out) noexcept nogil:
    """1 if any point is in the combination, else 0; if `out` is given, appends it whole, -1 if
    memory ran out."""
    cdef uint32_t i = 0, j = 0
    cdef bint inside = False
    cdef int order
    cdef const Point *point
    while i < a.count or j < b.count:
        if i == a.count or j == b.count:
            order = -1 if i < a.count else 1
        else:
            order = compare(&a.points[i], &b.points[j])
        point = &a.points[i] if order <= 0 else &b.points[j]
        i += order <= 0
        j += order >= 0
        if _combined(how, i & 1, j & 1) != inside:
            if out == NULL:
                return 1
            inside = not inside
            if not _push(out, point):
                return -1
    return out != NULL and out.count > 0


cdef bint spans_meet(const Spans *a, const Spans *b) noexcept nogil:
    return _combine(a, b, BOTH, NULL) == 1


cdef class Allowed:
    """Spans with an owner in Python."""

    def __dealloc__(self):
        spans_free(&self.spans)

    cdef int add(self, const Point *first, const Point *end) except -1:
        if not (_push(&self.spans, first) and _push(&self.spans, end)):
            raise MemoryError
        return 0

    cdef int add_keys(self, uint64_t first, uint64_t end) except -1:
        cdef Point a = Point(first, NULL, 0)
        cdef Point b = Point(end, NULL, 0)
        return self.add(&a, &b)

    cdef int add_strings(self, str first, str end) except -1:
        """From `first` to before `end`, or to the last string."""
        cdef Point a
        cdef Point b = Point(STRINGS_END, NULL, 0)
        _string_point(first, &a)
        if end is not None:
            _string_point(end, &b)
        return self.add(&a, &b)

    cdef Allowed combined(self, Allowed other, Combination how):
        cdef Allowed result = Allowed()
        if _combine(&self.spans, &other.spans, how, &result.spans) < 0:
            raise MemoryError
        return result

    cdef bint is_value(self) noexcept:
        cdef const Point *first = self.spans.points
        cdef const Point *end
        if self.spans.count != 2:
            return False
        end = first + 1
        if first.key >= STRINGS_START:
            return (
                end.length == first.length + 1
                and end.text[first.length] == 0
                and (first.length == 0 or memcmp(first.text, end.text, first.length) == 0)
            )
        if first.key >= NUMBERS_START and first.key < NUMBERS_END:
            return end.key == _next_number(first.key)
        return FALSE_KEY <= first.key < BOOLEANS_END and end.key == first.key + 1

    cdef object value(self):
        cdef const Point *first = self.spans.points
        if first.key >= STRINGS_START:
            return first.text[:first.length].decode() if first.length else ""
        if first.key >= NUMBERS_START:
            return _number(first.key)
        return HASHED_TRUE if first.key == TRUE_KEY else HASHED_FALSE


cdef object hashed(object value):
    if PyUnicode_Check(value) or PyFloat_CheckExact(value):
        return value
    if PyBool_Check(value):
        return HASHED_TRUE if value else HASHED_FALSE
    if PyFloat_Check(value):
        return PyFloat_AS_DOUBLE(value)
    if PyLong_Check(value):
        return _double(value)
    raise ValueError(f"a value is a bool, an int, a float or a str, not {_kind(value)}")


cdef int hashed_point(object value, Point *point) except -1:
    if value is HASHED_TRUE or value is HASHED_FALSE:
        value = value is HASHED_TRUE
    return point_of(value, point)


cdef Allowed _equal(object operand):
    cdef Allowed allowed = Allowed()
    cdef Point point
    if PyUnicode_Check(operand):
        allowed.add_strings(operand, operand + "\0")
        return allowed
    point_of(operand, &point)
    if point.key < BOOLEANS_END:
        allowed.add_keys(point.key, point.key + 1)
    else:
        allowed.add_keys(point.key, _next_number(point.key))
    return allowed


cdef Allowed _any_of(operands):
    cdef Allowed allowed = Allowed()
    for operand in operands:
        allowed = allowed.combined(_equal(operand), EITHER)
    return allowed


cdef Allowed _not_equal(object operand):
    cdef Allowed anything = Allowed()
    anything.add_keys(FALSE_KEY, NUMBERS_END)  # all but NaN
    anything.add_keys(STRINGS_START, STRINGS_END)
    return anything.combined(_equal(operand), FIRST_ONLY)


cdef Allowed _ordered(str operator, object operand):
    """What is before or after a number or a string."""
    cdef Allowed allowed = Allowed()
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
    after = _next_number(point.key)
    if operator[0] == "<":
        after = after if operator == "<=" else point.key
        if after > NUMBERS_START:
            allowed.add_keys(NUMBERS_START, after)
    else:
        after = after if operator == ">" else point.key
        if after < NUMBERS_END:
            allowed.add_keys(after, NUMBERS_END)
    return allowed


cdef Allowed _prefix(str operand):
    """From the prefix to before the next string that neither begins with it nor precedes it."""
    cdef Allowed allowed = Allowed()
    cdef str kept = operand.rstrip(LAST_CHARACTER)
    cdef str end = None
    cdef int last
    if kept:
        last = ord(kept[len(kept) - 1]) + 1
        # Surrogates are no characters.
        end = kept[:len(kept) - 1] + chr(0xE000 if last == 0xD800 else last)
    allowed.add_strings(operand, end)
    return allowed


cdef Allowed _under(str operand):
    cdef Allowed below = Allowed()
    below.add_strings(operand + "/", operand + "0")  # what follows / in the order of characters
    return _equal(operand).combined(below, EITHER)


cdef Allowed _allowed(str operator, tuple operands):
    """What a predicate that makes sense allows."""
    cdef Allowed everything
    if operator == "present":
        everything = Allowed()
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
    """What is wrong with a predicate, None if nothing is."""
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
            return f"takes a bool, an int, a float or a str, not {_kind(operand)}"
        if isinstance(operand, float) and operand != operand:
            return "cannot compare with NaN"
    if operator in ("prefix", "under") and not isinstance(operands[0], str):
        return f"takes a str, not {_kind(operands[0])}"
    if operator in ("<", "<=", ">", ">=") and isinstance(operands[0], bool):
        return "takes a number or a str, not bool"
    return None


cdef dict read_conjunction(object conjunction):
    cdef dict allowed = {}
    cdef Allowed more, known
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

    ValueError for a predicate that makes no sense. O(predicates); `matching.Conjunctions` is for
    many.
    """
    cdef Point point
    cdef Allowed allowed
    for attribute, allowed in read_conjunction(conjunction).items():
        if attribute not in event:
            return False
        value = event[attribute]
        point_of(value, &point)
        if not spans_contain(&allowed.spans, &point):
            return False
    return True


def covers(general, special):
    """Whether every event that fulfils the conjunction `special` fulfils `general`: exactly, for
    events with any double or string. ValueError for a predicate that makes no sense."""
    cdef dict asked = read_conjunction(special)
    cdef Allowed allowed, known
    for known in asked.values():
        if known.spans.count == 0:
            return True
    for attribute, allowed in read_conjunction(general).items():
        known = asked.get(attribute)
        if known is None or _combine(&known.spans, &allowed.spans, FIRST_ONLY, NULL):
            return False
    return True


def intersects(a, b):
    """Whether some event fulfils both conjunctions: exactly, for events with any double or string.
    ValueError for a predicate that makes no sense."""
    cdef dict first = read_conjunction(a)
    cdef dict second = read_conjunction(b)
    cdef Allowed allowed, other
    for allowed in [*first.values(), *second.values()]:
        if allowed.spans.count == 0:
            return False
    for attribute, allowed in first.items():
        other = second.get(attribute)
        if other is not None and not spans_meet(&allowed.spans, &other.spans):
            return False
    return True
