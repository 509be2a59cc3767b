"""Whether texts are areas, such as ``b1/f4/r413``: a query has up to 1,024 of them."""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

# As AREA_PATTERN of agent/wire/areas.py has it.
cdef enum:
    LONGEST_NAME = 64
    DEEPEST = 16


cdef inline bint _in_name(char c) noexcept nogil:
    return (
        b"a" <= c <= b"z" or b"A" <= c <= b"Z" or b"0" <= c <= b"9"
        or c == b"_" or c == b"." or c == b"-"
    )


cdef bint _is_area(const char *text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t n
    cdef Py_ssize_t length = 0
    cdef int depth = 1
    for n in range(size):
        if _in_name(text[n]):
            length += 1
            if length > LONGEST_NAME:
                return False
        elif text[n] == b"/" and length > 0 and depth < DEEPEST:
            length = 0
            depth += 1
        else:
            return False
    return length > 0


def first_malformed(tuple texts not None):
    """The index of the first text that is no area, or -1. O(characters).

    An area is up to 16 names, separated by "/", of 1 to 64 of the characters A-Z a-z 0-9 _ . and -.
    """
    cdef Py_ssize_t n, size
    cdef const char *text
    for n in range(len(texts)):
        try:
            text = PyUnicode_AsUTF8AndSize(texts[n], &size)
        except UnicodeEncodeError:  # half of a surrogate pair
            return n
        if not _is_area(text, size):
            return n
    return -1
