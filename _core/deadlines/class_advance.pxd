"""Class advances: serves classes of queries earlier or later, to balance their SLO misses.

Plain C for other Cython modules, without the GIL, one thread at a time.
"""

cdef enum:
    CLASSES = 64

cdef struct QueryClass:
    double slo_s
    double allowed                # share of its queries that may miss: 1 - p_q / 100
    double share                  # of all queries, 0..1: a moving average
    double advance_s              # how much earlier than its SLO it is served; negative: later

cdef struct Balance:
    QueryClass[CLASSES] classes   # the first `count` are in use
    int count
    double finished               # queries, capped at the length of the moving average
    double missed                 # queries that missed their SLO, of all that ever finished

# The advance in s, limited to half of an SLO or budget of `budget_s` in either direction.
cdef double limited_advance_c(double advance_s, double budget_s) noexcept nogil

cdef void balance_init(Balance *b) noexcept nogil

# Starts class `c` with advance 0: a new one (c == count < CLASSES) or a replacement (c < count).
# `slo_s` > 0, 0 < `allowed` < 1.
cdef void balance_set_class(Balance *b, int c, double slo_s, double allowed) noexcept nogil

# Records that a query of class `c` < count has ended, and adjusts the advances of all. O(count).
cdef void balance_finished(Balance *b, int c, bint missed) noexcept nogil


cdef class ClassBalance:
    cdef Balance b
    cdef int check(self, int number) except -1
