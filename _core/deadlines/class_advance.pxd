"""Class advances: serves classes of queries earlier or later, to balance their SLO misses.

Plain C for other Cython modules, without the GIL, one thread at a time.
"""

cdef enum:
    CLASSES = 64

cdef struct QueryClass:
    double slo_s
    double allowed                # share of its queries that may miss: 1 - p_q / 100
    double share                  # of all queries, a moving average
    double advance_s              # by how much earlier than its SLO says it is served

cdef struct Balance:
    QueryClass[CLASSES] classes
    int count
    double finished               # queries, up to where the moving average forgets
    double missed                 # of all that ever finished

# An advance within what it may be for an SLO or a budget of so many seconds.
cdef double limited_advance_c(double advance_s, double budget_s) noexcept nogil

cdef void balance_init(Balance *b) noexcept nogil

# Begins class `c` < CLASSES anew, at most `count`. `slo_s` > 0, 0 < `allowed` < 1.
cdef void balance_set_class(Balance *b, int c, double slo_s, double allowed) noexcept nogil

# A query of class `c` < count has ended. O(count).
cdef void balance_finished(Balance *b, int c, bint missed) noexcept nogil


cdef class ClassBalance:
    cdef Balance b
    cdef int check(self, int number) except -1
