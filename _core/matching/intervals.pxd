"""Interval sets ("spans"): the values of one attribute that predicates allow.

All values are ordered on a line: booleans, numbers, NaN, and strings by code points. A span is a
half-open interval. A predicate allows a few spans, and so does a conjunction of predicates; as each
value has a successor, both ends can always be represented.

`Point` and `Spans` are plain C, used without the GIL; `Allowed` carries spans through Python code.
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
    uint64_t key              # orders all values but strings that begin with the same 6 bytes
    const char *text          # of a string, in UTF-8, not ended by a 0; NULL if empty
    uint32_t length           # of the text, bytes

cdef struct Spans:
    Point *points             # [count] ascending: first, end, first, end, …; their texts are owned
    uint32_t count            # even; 0: nothing is allowed

cdef int compare_texts(const Point *a, const Point *b) noexcept nogil

# Below 0, 0 or above 0, as `a` is before, at or after `b`.
cdef inline int compare(const Point *a, const Point *b) noexcept nogil:
    if a.key != b.key:
        return 1 if a.key > b.key else -1
    return compare_texts(a, b) if a.key >= STRINGS_START else 0

# A point whose text is its own; False if memory ran out.
cdef bint point_copy(Point *to, const Point *point) noexcept nogil

# The key of the next greater double.
cdef uint64_t next_number(uint64_t key) noexcept nogil

# The name of a value's type.
cdef str kind_of(object value)

# Where a value stands; the text is the value's own. ValueError for what is no bool, number or str.
cdef int point_of(object value, Point *point) except -1

cdef void spans_free(Spans *spans) noexcept nogil

# Whether a point is in one of the spans. O(count).
cdef bint spans_contain(const Spans *spans, const Point *point) noexcept nogil

# Ways to combine two sets of spans: in both, in one at least, in the first but not in the second.
cdef enum Combination:
    BOTH
    EITHER
    FIRST_ONLY

# Whether any point is in a combination; it is appended to `out`, unless that is NULL. -1 if memory
# ran out. O(a.count + b.count).
cdef int spans_combine(const Spans *a, const Spans *b, Combination how, Spans *out) noexcept nogil

# Whether some point is in both. O(a.count + b.count).
cdef bint spans_meet(const Spans *a, const Spans *b) noexcept nogil


cdef class Allowed:
    cdef Spans spans

    cdef int add(self, const Point *first, const Point *end) except -1
    cdef int add_keys(self, uint64_t first, uint64_t end) except -1
    cdef int add_strings(self, str first, str end) except -1
    cdef Allowed combined(self, Allowed other, Combination how)

    # True if exactly one value is allowed.
    cdef bint is_value(self) noexcept

    # That value, for a dict: as `hashed`.
    cdef object value(self)


# A value as a key of dicts: numbers as floats, booleans as what equals no number.
cdef object hashed(object value)

# The point of a value that is hashed.
cdef int hashed_point(object value, Point *point) except -1
