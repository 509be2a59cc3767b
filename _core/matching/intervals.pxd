"""Interval sets: the values of one attribute that predicates allow.

All values are ordered on a line: booleans, numbers, NaN, and strings by code points. Intervals are
half-open. A predicate allows a few of them, and so does a conjunction of predicates; as each value
has a successor, both ends can always be represented.

`Point` and `Intervals` are plain C, used without the GIL; `IntervalSet` is the Python object that
owns a set.
"""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #define FALSE_KEY 1ULL
    #define TRUE_KEY 2ULL
    #define BOOLEANS_END 3ULL
    #define NUMBERS_START 0x000FFFFFFFFFFFFFULL  /* -infinity */
    #define NUMBERS_END 0xFFF0000000000001ULL    /* after infinity; NaN stands here */
    #define STRINGS_START 0xFFF8000000000000ULL  /* the empty string */
    #define STRINGS_END 0xFFF9000000000000ULL    /* the end of the line */
    """
    const uint64_t FALSE_KEY
    const uint64_t TRUE_KEY
    const uint64_t BOOLEANS_END
    const uint64_t NUMBERS_START
    const uint64_t NUMBERS_END
    const uint64_t STRINGS_START
    const uint64_t STRINGS_END

cdef struct Point:
    uint64_t key              # orders all values except strings that share their first 6 bytes
    const char *text          # [length] the string in UTF-8, without a final NUL; else NULL
    uint32_t length           # bytes

cdef struct Intervals:            # owns `points` and their texts; free with intervals_free
    Point *points             # [count] ascending: start, end, start, end, …
    uint32_t count            # even; 0: no value is allowed

cdef int compare_texts(const Point *a, const Point *b) noexcept nogil

# Negative, 0 or positive if `a` is before, at or after `b`.
cdef inline int compare(const Point *a, const Point *b) noexcept nogil:
    if a.key != b.key:
        return 1 if a.key > b.key else -1
    return compare_texts(a, b) if a.key >= STRINGS_START else 0

# Copies a point and its text, which the caller frees; False if memory ran out.
cdef bint point_copy(Point *to, const Point *point) noexcept nogil

# The key of the next greater double.
cdef uint64_t next_number(uint64_t key) noexcept nogil

# The name of a value's type, for error messages.
cdef str kind_of(object value)

# The point of a value; its text is borrowed from the value. ValueError unless it is a bool, number
# or str.
cdef int point_of(object value, Point *point) except -1

cdef void intervals_free(Intervals *intervals) noexcept nogil

# Whether a point is in one of the intervals. O(count).
cdef bint intervals_contain(const Intervals *intervals, const Point *point) noexcept nogil

cdef enum Combination:
    BOTH                      # intersection
    EITHER                    # union
    FIRST_ONLY                # difference

# Combines two sets. Returns whether the result has any point, -1 if memory ran out. The result is
# appended to `out`, which owns it, unless `out` is NULL. O(a.count + b.count).
cdef int intervals_combine(
    const Intervals *a, const Intervals *b, Combination how, Intervals *out
) noexcept nogil

# Whether the sets have a point in common. O(a.count + b.count).
cdef bint intervals_meet(const Intervals *a, const Intervals *b) noexcept nogil


cdef class IntervalSet:
    cdef Intervals intervals

    cdef int add(self, const Point *first, const Point *end) except -1
    cdef int add_keys(self, uint64_t first, uint64_t end) except -1
    cdef int add_strings(self, str first, str end) except -1
    cdef IntervalSet combined(self, IntervalSet other, Combination how)

    # Whether exactly one value is allowed.
    cdef bint is_value(self) noexcept

    # That value, as `hashed` returns it.
    cdef object value(self)


# A value as a dict key: numbers as floats, booleans as objects that equal no number.
cdef object hashed(object value)

# The point of a value that `hashed` returned.
cdef int hashed_point(object value, Point *point) except -1
