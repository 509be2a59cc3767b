"""Cluster index vectors: bit i stands for cluster i of the overlay (OctopiA, section IV-C).

Plain C for other Cython modules, without the GIL, one thread at a time: embed a `CivBits`,
initialise it with `civ_init`, use the functions below. Nothing is allocated. Two vectors used
together must have the same width.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef extern from *:
    int _ones "__builtin_popcountll"(unsigned long long word) noexcept nogil
    int _lowest "__builtin_ctzll"(unsigned long long word) noexcept nogil

cdef enum:
    CIV_WORDS = 16
    CIV_MOST = 1024               # maximum number of clusters: CIV_WORDS * 64
    CIV_MAX_BYTES = 128          # maximum length on the wire

cdef struct CivBits:
    uint64_t[CIV_WORDS] words     # cluster i is bit i % 64 of word i / 64; those past `width` are 0
    uint32_t width                # clusters, 1 to CIV_MOST


# Words in use; then bytes on the wire.
cdef inline uint32_t civ_words(const CivBits *c) noexcept nogil:
    return (c.width + 63) >> 6

cdef inline uint32_t civ_bytes(const CivBits *c) noexcept nogil:
    return (c.width + 7) >> 3

# Initialises an empty vector for `width` clusters, 1 to CIV_MOST.
cdef inline void civ_init(CivBits *c, uint32_t width) noexcept nogil:
    cdef uint32_t i
    CHECK(0 < width <= CIV_MOST)
    c.width = width
    for i in range(<uint32_t>CIV_WORDS):
        c.words[i] = 0

# The next four need cluster < width. O(1).
cdef inline bint civ_test(const CivBits *c, uint32_t cluster) noexcept nogil:
    CHECK(cluster < c.width)
    return (c.words[cluster >> 6] >> (cluster & 63)) & 1

cdef inline uint64_t civ_bit(uint32_t cluster) noexcept nogil:
    return (<uint64_t>1) << (cluster & 63)

cdef inline void civ_set(CivBits *c, uint32_t cluster) noexcept nogil:
    CHECK(cluster < c.width)
    c.words[cluster >> 6] |= civ_bit(cluster)

cdef inline void civ_clear(CivBits *c, uint32_t cluster) noexcept nogil:
    CHECK(cluster < c.width)
    c.words[cluster >> 6] &= ~civ_bit(cluster)

# The lowest cluster >= start whose bit is set; -1 if there is none. Any `start`. O(words).
cdef inline int32_t civ_next(const CivBits *c, uint32_t start) noexcept nogil:
    cdef uint32_t i = start >> 6
    cdef uint64_t word
    if start >= c.width:
        return -1
    word = c.words[i] & ~(civ_bit(start) - 1)
    while word == 0:
        i += 1
        if i == civ_words(c):
            return -1
        word = c.words[i]
    return <int32_t>(64 * i) + _lowest(word)

# All functions below are O(words). The binary ones need equal widths.
cdef inline uint32_t civ_count(const CivBits *c) noexcept nogil:
    cdef uint32_t count = 0
    cdef uint32_t i
    for i in range(civ_words(c)):
        count += _ones(c.words[i])
    return count

cdef inline bint civ_any(const CivBits *c) noexcept nogil:
    cdef uint32_t i
    for i in range(civ_words(c)):
        if c.words[i] != 0:
            return True
    return False

cdef inline bint civ_equal(const CivBits *a, const CivBits *b) noexcept nogil:
    cdef uint32_t i
    if a.width != b.width:
        return False
    for i in range(civ_words(a)):
        if a.words[i] != b.words[i]:
            return False
    return True

cdef inline void civ_unite(CivBits *c, const CivBits *other) noexcept nogil:
    cdef uint32_t i
    CHECK(c.width == other.width)
    for i in range(civ_words(c)):
        c.words[i] |= other.words[i]

cdef inline void civ_subtract(CivBits *c, const CivBits *other) noexcept nogil:
    cdef uint32_t i
    CHECK(c.width == other.width)
    for i in range(civ_words(c)):
        c.words[i] &= ~other.words[i]

# Writes the wire form to `data`, civ_bytes(c) bytes: cluster i is bit i % 8 of byte i / 8.
cdef void civ_write(const CivBits *c, uint8_t *data) noexcept nogil

# Reads the wire form, civ_bytes(c) bytes, into a vector initialised with its width. Returns False,
# and leaves the vector unchanged, if a bit beyond the width is set.
cdef bint civ_read(CivBits *c, const uint8_t *data) noexcept nogil


cdef class Civ:
    cdef CivBits bits
    cdef int own                  # in an advertisement's context its own cluster, else -1
    cdef int only                 # in a subscription's context its only cluster, else -1
    cdef Py_ssize_t check(self, object cluster) except -1
    cdef int check_set(self, uint32_t cluster) except -1
    cdef int check_width(self, Civ other) except -1
