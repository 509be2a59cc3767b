"""JSON encoding of packed columns; the Python functions release the GIL while they write."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport fabs, rint
from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, strtol
from libc.string cimport memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    DIGITS = 7
    # msgspec writes decimals from 1e-5 and below 1e16.
    LEAST_PLAIN = -5
    MAX_PLAIN = 15

cdef double[13] POWERS = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12]


cdef inline char *_unsigned(uint64_t number, char *to) noexcept nogil:
    """Write a number in decimal; returns its end."""
    cdef char[20] reversed
    cdef int length = 0
    while True:
        reversed[length] = <char>(c'0' + number % 10)
        length += 1
        number //= 10
        if number == 0:
            break
    while length > 0:
        length -= 1
        to[0] = reversed[length]
        to += 1
    return to


cdef inline int _exponent(double size) noexcept nogil:
    """The decimal exponent of 1e-6 <= size < 1e7."""
    cdef int e
    if size >= 1.0:
        e = 0
        while e < DIGITS - 1 and size >= POWERS[e + 1]:
            e += 1
        return e
    if size >= 1e-1:
        return -1
    if size >= 1e-2:
        return -2
    if size >= 1e-3:
        return -3
    if size >= 1e-4:
        return -4
    return -5 if size >= 1e-5 else -6


cdef char *_decimal(uint32_t digits, int exponent, char *to) noexcept nogil:
    """Write d.dddddd times ten to the exponent, from the seven `digits`; returns its end."""
    cdef int length = DIGITS
    cdef int i
    cdef char[DIGITS] text
    while digits % 10 == 0 and length > 1:
        digits //= 10
        length -= 1
    for i in range(length - 1, -1, -1):
        text[i] = <char>(c'0' + digits % 10)
        digits //= 10
    if exponent < LEAST_PLAIN or exponent > MAX_PLAIN:
        to[0] = text[0]
        to += 1
        if length > 1:
            to[0] = c'.'
            memcpy(to + 1, text + 1, length - 1)
            to += length
        to[0] = c'e'
        to += 1
        if exponent < 0:
            to[0] = c'-'
            to += 1
        return _unsigned(<uint64_t>(-exponent if exponent < 0 else exponent), to)
    if exponent < 0:
        to[0] = c'0'
        to[1] = c'.'
        to += 2
        for i in range(-exponent - 1):
            to[0] = c'0'
            to += 1
        memcpy(to, text, length)
        return to + length
    for i in range(exponent + 1):
        to[0] = text[i] if i < length else c'0'
        to += 1
    to[0] = c'.'
    to += 1
    if length <= exponent + 1:
        to[0] = c'0'
        return to + 1
    memcpy(to, text + exponent + 1, length - exponent - 1)
    return to + length - exponent - 1


cdef char *_rare(double size, char *to) noexcept nogil:
    """As `_float`, for magnitudes whose digits a single multiplication does not give exactly."""
    cdef char[32] text
    cdef uint32_t digits
    cdef int i
    snprintf(text, sizeof(text), "%.6e", size)
    digits = text[0] - c'0'
    for i in range(2, DIGITS + 1):
        digits = 10 * digits + (text[i] - c'0')
    return _decimal(digits, <int>strtol(text + DIGITS + 2, NULL, 10), to)


cdef inline char *_float(float number, char *to) noexcept nogil:
    cdef double size = fabs(<double>number)
    cdef double digits
    cdef int exponent
    if not size <= 3.5e38:
        memcpy(to, b"null", 4)
        return to + 4
    # Includes the sign of a zero.
    if (<uint32_t *>&number)[0] >> 31:
        to[0] = c'-'
        to += 1
    if size == 0.0:
        memcpy(to, b"0.0", 3)
        return to + 3
    if size < 1e-6 or size >= 1e7:
        return _rare(size, to)
    exponent = _exponent(size)
    # Exact before rounding: 24 bits times the 28 bits of 5^12 fit into a double's 53.
    digits = rint(size * POWERS[DIGITS - 1 - exponent])
    if digits >= 1e7:
        digits = 1e6
        exponent += 1
    return _decimal(<uint32_t>digits, exponent, to)


cdef inline char *_integer(int64_t number, char *to) noexcept nogil:
    if number < 0:
        to[0] = c'-'
        # The minimum has no positive counterpart.
        return _unsigned(<uint64_t>0 - <uint64_t>number, to + 1)
    return _unsigned(<uint64_t>number, to)


cdef size_t write(const Number *numbers, size_t count, char *to) noexcept nogil:
    cdef char *begin = to
    cdef size_t i
    for i in range(count):
        if i > 0:
            to[0] = c','
            to += 1
        if Number is float:
            to = _float(numbers[i], to)
        elif Number is int64_t:
            to = _integer(numbers[i], to)
        else:
            to = _unsigned(numbers[i], to)
    return to - begin


cdef bytes _array(bytes data, const Number *numbers):
    """`numbers` are those of `data`."""
    cdef size_t count = <size_t>PyBytes_GET_SIZE(data) // sizeof(Number)
    cdef char *text = <char *>malloc(count * MAX_CHARACTERS + 2)
    cdef size_t length
    if text == NULL:
        raise MemoryError
    try:
        with nogil:
            text[0] = c'['
            length = 1 + write(numbers, count, text + 1)
            CHECK(length <= count * MAX_CHARACTERS + 1)
            text[length] = c']'
        return PyBytes_FromStringAndSize(text, length + 1)
    finally:
        free(text)


def float32_array(bytes data not None) -> bytes:
    """The JSON array of 32-bit floats. O(n), without the GIL."""
    return _array(data, <const float *>PyBytes_AS_STRING(data))


def int64_array(bytes data not None) -> bytes:
    """The JSON array of signed 64-bit integers. O(n), without the GIL."""
    return _array(data, <const int64_t *>PyBytes_AS_STRING(data))


def uint32_array(bytes data not None) -> bytes:
    """The JSON array of unsigned 32-bit integers. O(n), without the GIL."""
    return _array(data, <const uint32_t *>PyBytes_AS_STRING(data))


def uint8_array(bytes data not None) -> bytes:
    """The JSON array of unsigned bytes. O(n), without the GIL."""
    return _array(data, <const uint8_t *>PyBytes_AS_STRING(data))
