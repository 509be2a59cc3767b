"""JSON encoding of packed columns: numbers to the text of a JSON array.

The output equals msgspec's for the same numbers as Python objects: integers in decimal; floats with
the seven significant digits of 32 bits, without trailing zeros (23.46), as decimals from 1e-5 to
below 1e16 and otherwise with an exponent (1.5e-7, 1e16); NaN and infinity as null.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    # Upper bound for one number and its comma; the longest are -1234567000000000.0 and
    # -9223372036854775808.
    MAX_CHARACTERS = 24

ctypedef fused Number:
    float
    int64_t
    uint32_t
    uint8_t

# Writes `count` numbers as ASCII, separated by commas, to the caller's buffer `to`, and returns the
# number of bytes written. `to` must hold count * MAX_CHARACTERS bytes; no NUL is appended.
# O(count).
cdef size_t write(const Number *numbers, size_t count, char *to) noexcept nogil
