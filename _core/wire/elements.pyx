"""The number of values in MessagePack, counted over all levels: what decoding costs at most.

A decoder judges the length of each list, and decodes each repetition of a key before it drops all
but the last. A frame of 1 MiB with the same key 500 times, each time a list of the permitted
length, takes it 400 ms.
"""

from libc.stdint cimport uint8_t, uint64_t


cdef inline uint64_t _big_endian(const uint8_t *at, int size) noexcept nogil:
    cdef uint64_t number = 0
    cdef int n
    for n in range(size):
        number = number << 8 | at[n]
    return number


cdef uint64_t _count(const uint8_t *at, const uint8_t *end, uint64_t most) noexcept nogil:
    # Values that follow within what has begun. A length says at most 2³³ more, for each of the
    # values counted: it does not overflow.
    cdef uint64_t left = 1
    cdef uint64_t found = 0
    cdef uint64_t skipped
    cdef uint8_t first
    cdef int size
    while left > 0 and found <= most and at < end:
        first = at[0]
        at += 1
        left -= 1
        found += 1
        size = 0
        skipped = 0
        if first < 0x80 or first >= 0xE0 or 0xC0 <= first <= 0xC3:
            continue  # a small integer, nil, a boolean
        elif first < 0x90:
            left += 2 * (first & 0x0F)
        elif first < 0xA0:
            left += first & 0x0F
        elif first < 0xC0:
            skipped = first & 0x1F
        elif first < 0xC7 or 0xD9 <= first <= 0xDB:  # binary data, and text, by its length
            size = 1 << ((first - 0xC4) if first < 0xC7 else (first - 0xD9))
            if end - at < size:
                break
            skipped = _big_endian(at, size)
        elif first < 0xCA:  # an extension: its length and its type
            size = 1 << (first - 0xC7)
            if end - at < size:
                break
            skipped = 1 + _big_endian(at, size)
        elif first < 0xCC:
            skipped = 4 << (first - 0xCA)
        elif first < 0xD4:  # integers, unsigned and signed
            skipped = 1 << (first - 0xCC & 3)
        elif first < 0xD9:  # extensions of fixed lengths, and their type
            skipped = 1 + (1 << (first - 0xD4))
        else:  # lists and maps of 16 and 32 bits
            size = 2 << (first & 1)
            if end - at < size:
                break
            left += _big_endian(at, size) << (first >= 0xDE)
        at += size
        if <uint64_t>(end - at) < skipped:
            break
        at += skipped
    return found


def elements(const uint8_t[::1] frame not None, size_t start, uint64_t most) -> int:
    """How many values there are in the one that begins at `start`: itself, the elements of lists,
    keys and values of maps. Counting ends above `most`, and where the frame is cut off. O(values
    counted); the GIL is held."""
    cdef size_t size = frame.shape[0]
    if start >= size:
        return 0
    return _count(&frame[0] + start, &frame[0] + size, most)
