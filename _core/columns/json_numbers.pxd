"""JSON encoding of packed columns: numbers to the text of a JSON array.

The output equals msgspec's for the same numbers as Python objects: integers in decimal; floats with
the seven significant digits of 32 bits, without trailing zeros (23.46), as decimals from 1e-5 to
below 1e16 and otherwise with an exponent (1.5e-7, 1e16); NaN and infinity as null.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    # The longest are -1234567000000000.0 and -9223372036854775808, and a comma.
    MAX_CHARACTERS = 24

ctypedef fused Number:
    float
    int64_t
    uint32_t
    uint8_t

# Writes `count` numbers, separated by commas, to `to`, which has room for MAX_CHARACTERS a number,
# and returns how many characters these were. O(count).
cdef size_t write(const Number *numbers, size_t count, char *to) noexcept nogil
