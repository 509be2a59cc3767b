"""Size regression: the expected time of a request by its size, with one line per node.

DSSP treats the service time as unknown, but a subtask's window determines how many readings its
node has to fetch. A node's line is fitted to its own samples plus PRIOR_WEIGHT samples of the
pool's; the slope is shrunk more the fewer samples support it. If the size explains nothing, the
line is level at the mean.
"""

from libc.math cimport isfinite
from libc.stdlib cimport free, realloc
from libc.string cimport memset

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    FIRST_CAPACITY = 16
    MAX_CAPACITY = 1 << 22

# As for the histograms (docs/understand/deadlines.md): the weight of the pool, in samples.
cdef double PRIOR_WEIGHT = 10.0
# A sample's weight falls to 1/e after a thousand more.
cdef double FORGET = 1.0 / 1000.0
cdef double KEEP = 1.0 - FORGET


cdef void sizes_init(Sizes *s, double prior_mean_s) noexcept nogil:
    memset(s, 0, sizeof(Sizes))
    s.prior_mean_s = prior_mean_s


cdef void sizes_free(Sizes *s) noexcept nogil:
    free(s.lines)
    s.lines = NULL
    s.capacity = 0


cdef void _add(Line *line, double size, double time_s) noexcept nogil:
    """West's update of weighted moments."""
    cdef double off_size = size - line.mean_size
    line.weight = KEEP * line.weight + 1.0
    line.mean_size += off_size / line.weight
    line.mean_s += (time_s - line.mean_s) / line.weight
    line.size2 = KEEP * line.size2 + off_size * (size - line.mean_size)
    line.size_s = KEEP * line.size_s + off_size * (time_s - line.mean_s)


cdef int _reach(Sizes *s, int32_t column) noexcept nogil:
    """Room for a column."""
    cdef int32_t capacity = max(s.capacity, FIRST_CAPACITY)
    cdef void *memory
    while capacity <= column:
        capacity *= 2
    memory = realloc(s.lines, capacity * sizeof(Line))
    if memory == NULL:
        return -1
    s.lines = <Line *>memory
    memset(s.lines + s.capacity, 0, (capacity - s.capacity) * sizeof(Line))
    s.capacity = capacity
    return 0


cdef int sizes_observe(Sizes *s, int32_t column, double size, double time_s) noexcept nogil:
    CHECK(0 <= column)
    CHECK(column < MAX_CAPACITY)
    if column >= s.capacity and _reach(s, column) != 0:
        return -1
    _add(&s.lines[column], size, time_s)
    _add(&s.pool, size, time_s)
    return 0


cdef Line _shrunk(const Line *own, const Line *pool) noexcept nogil:
    """A node's moments plus at most PRIOR_WEIGHT samples' worth of the pool's."""
    cdef Line line
    cdef double share = min(PRIOR_WEIGHT, pool.weight) / pool.weight
    cdef double added = pool.weight * share
    cdef double off_size = pool.mean_size - own.mean_size
    cdef double off_s = pool.mean_s - own.mean_s
    line.weight = own.weight + added
    line.mean_size = own.mean_size + off_size * added / line.weight
    line.mean_s = own.mean_s + off_s * added / line.weight
    line.size2 = own.size2 + share * pool.size2
    line.size2 += off_size * off_size * own.weight * added / line.weight
    line.size_s = own.size_s + share * pool.size_s
    line.size_s += off_size * off_s * own.weight * added / line.weight
    return line


cdef double sizes_expected(const Sizes *s, int32_t column, double size) noexcept nogil:
    cdef Line line
    cdef double prior
    cdef double mean_s
    cdef double slope = 0.0
    if s.pool.weight == 0.0:
        return s.prior_mean_s
    if column < s.capacity and s.lines[column].weight > 0.0:
        line = _shrunk(&s.lines[column], &s.pool)
    else:
        line = s.pool
    # The prior counts as older than all samples; its weight by now (n samples weigh
    # (1 - KEEP^n) / FORGET).
    prior = PRIOR_WEIGHT * max(0.0, 1.0 - FORGET * s.pool.weight)
    mean_s = line.mean_s + (s.prior_mean_s - line.mean_s) * prior / (s.pool.weight + prior)
    if line.size2 > 0.0:
        slope = line.size_s / line.size2 * line.weight / (line.weight + PRIOR_WEIGHT)
    return max(mean_s + slope * (size - line.mean_size), 0.0)


cdef class SizeModel:
    """The expected unloaded response times of an IAD's nodes, by the size of the request.

    Sizes are in any unit, times in s. Not thread-safe. A line takes 40 bytes.
    """

    def __cinit__(self, double prior_mean_s=0.1):
        if not 0.0 < prior_mean_s < 1e9:
            raise ValueError(f"prior_mean_s = {prior_mean_s} is not a time above 0")
        sizes_init(&self.s, prior_mean_s)

    def __dealloc__(self):
        sizes_free(&self.s)

    cdef int check_own(self) except -1:
        if self.lent:
            raise ValueError("a simulation uses the model; others may when it has ended")
        return 0

    def observe(self, int column, double size, double time_s):
        """Add a sample: node `column` took `time_s` for a request of `size`.

        ValueError for a negative column or a number that is not finite. O(1).
        """
        self.check_own()
        if not 0 <= column < MAX_CAPACITY:
            raise ValueError(f"column {column} is not in 0..{MAX_CAPACITY - 1}")
        if not (isfinite(size) and isfinite(time_s)):
            raise ValueError(f"size {size} or time_s {time_s} is not finite")
        if sizes_observe(&self.s, column, size, time_s) != 0:
            raise MemoryError

    def forget(self, int column):
        """Drop a node's own samples: the column may be another's. ValueError if negative. O(1)."""
        self.check_own()
        if column < 0:
            raise ValueError(f"column {column} is out of range")
        if column < self.s.capacity:
            memset(self.s.lines + column, 0, sizeof(Line))

    def expected(self, int column, double size):
        """The expected time (s) of a request of `size` at node `column`, 0 or more.

        The pool's if the node has no samples, `prior_mean_s` if there are none at all. ValueError
        for a negative column or a size that is not finite. O(1).
        """
        self.check_own()
        if column < 0 or not isfinite(size):
            raise ValueError(f"column {column} or size {size} is out of range")
        return sizes_expected(&self.s, column, size)
