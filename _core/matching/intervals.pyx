"""Interval sets ("intervals"): the values of one attribute that predicates allow.

A double's bits, with the sign flipped, order the doubles and leave keys free at both ends: booleans
come before them; after them come strings by their first six bytes in UTF-8, whose order is that of
the code points. Strings with equal keys are compared as a whole.
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


cdef uint64_t next_number(uint64_t key) noexcept nogil:
    return SIGN_BIT if key + 1 == MINUS_ZERO else key + 1


cdef double _double(object value) except? -1.0:
    """An int as a double; infinite if out of range."""
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
        raise ValueError(f"a value is a bool, an int, a float or a str, not {kind_of(value)}")
    return 0


cdef str kind_of(object value):
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


cdef void intervals_free(Intervals *intervals) noexcept nogil:
    cdef uint32_t i
    for i in range(intervals.count):
        free(<void *>intervals.points[i].text)
    free(intervals.points)
    intervals.points = NULL
    intervals.count = 0


cdef bint _push(Intervals *intervals, const Point *point) noexcept nogil:
    """Append a point. Its array holds a power of two."""
    cdef void *memory
    if intervals.count & (intervals.count - 1) == 0:
        memory = realloc(intervals.points, 2 * max(intervals.count, 1) * sizeof(Point))
        if memory == NULL:
            return False
        intervals.points = <Point *>memory
    if not point_copy(&intervals.points[intervals.count], point):
        return False
    intervals.count += 1
    return True


cdef bint intervals_contain(const Intervals *intervals, const Point *point) noexcept nogil:
    cdef uint32_t i = 0
    while i < intervals.count and compare(&intervals.points[i], point) <= 0:
        i += 1
    return i & 1


cdef inline bint _in_combination(Combination how, bint in_a, bint in_b) noexcept nogil:
    if how == BOTH:
        return in_a and in_b
    if how == EITHER:
        return in_a or in_b
    return in_a and not in_b


cdef int intervals_combine(
    const Intervals *a, const Intervals *b, Combination how, Intervals *out
) noexcept nogil:
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
        if _in_combination(how, i & 1, j & 1) != inside:
            if out == NULL:
                return 1
            inside = not inside
            if not _push(out, point):
                return -1
    return out != NULL and out.count > 0


cdef bint intervals_meet(const Intervals *a, const Intervals *b) noexcept nogil:
    return intervals_combine(a, b, BOTH, NULL) == 1


cdef class IntervalSet:
    """Intervals owned by a Python object."""

    def __dealloc__(self):
        intervals_free(&self.intervals)

    cdef int add(self, const Point *first, const Point *end) except -1:
        if not (_push(&self.intervals, first) and _push(&self.intervals, end)):
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

    cdef IntervalSet combined(self, IntervalSet other, Combination how):
        cdef IntervalSet result = IntervalSet()
        if intervals_combine(&self.intervals, &other.intervals, how, &result.intervals) < 0:
            raise MemoryError
        return result

    cdef bint is_value(self) noexcept:
        cdef const Point *first = self.intervals.points
        cdef const Point *end
        if self.intervals.count != 2:
            return False
        end = first + 1
        if first.key >= STRINGS_START:
            return (
                end.length == first.length + 1
                and end.text[first.length] == 0
                and (first.length == 0 or memcmp(first.text, end.text, first.length) == 0)
            )
        if first.key >= NUMBERS_START and first.key < NUMBERS_END:
            return end.key == next_number(first.key)
        return FALSE_KEY <= first.key < BOOLEANS_END and end.key == first.key + 1

    cdef object value(self):
        cdef const Point *first = self.intervals.points
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
    raise ValueError(f"a value is a bool, an int, a float or a str, not {kind_of(value)}")


cdef int hashed_point(object value, Point *point) except -1:
    if value is HASHED_TRUE or value is HASHED_FALSE:
        value = value is HASHED_TRUE
    return point_of(value, point)
