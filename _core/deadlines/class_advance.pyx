"""Class advances: serves classes of queries earlier or later, to balance their SLO misses.

An advance corresponds to the Lagrange multiplier of "at most 1 - p_q of this class may miss"
(docs/understand/policy.md): exponentiated gradient on the misses. A miss advances its class, by
more the fewer misses the class is allowed; the mean advance over all queries stays zero. Without
misses nothing changes.
"""

from libc.string cimport memset

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

# Step of a miss if all classes are equal, as a share of the queries' mean SLO. Larger steps
# converge faster and fluctuate more.
cdef double STEP = 0.02
# Initial multiple of the step, which decreases with every miss (Robbins and Monro), so that a cold
# start does not take hours.
cdef double EARLY = 5.0
# A class's share of the queries is a moving average over this many queries.
cdef double MEMORY = 1000.0
# A miss moves a class at most as far as this many misses of equal classes. A class that is too rare
# or too strict for that moves part of the way and takes the same part in the common shift, so that
# the mean still stays zero.
cdef double MAX_STEPS = 10.0
# Maximum advance or delay of a class, as a share of its SLO.
cdef double FURTHEST = 0.5


cdef double limited_advance_c(double advance_s, double budget_s) noexcept nogil:
    return min(max(advance_s, -FURTHEST * budget_s), FURTHEST * budget_s)


def limited_advance(double advance_s, double budget_s):
    """An advance (s), limited to half of the budget (s) in either direction, as a task scheduler
    does with an advance learnt by a query scheduler. O(1)."""
    return limited_advance_c(advance_s, budget_s)


cdef void balance_init(Balance *b) noexcept nogil:
    memset(b, 0, sizeof(Balance))


cdef void balance_set_class(Balance *b, int c, double slo_s, double allowed) noexcept nogil:
    CHECK(0 <= c)
    CHECK(c <= b.count)
    CHECK(c < CLASSES)
    b.count = max(b.count, c + 1)
    b.classes[c].slo_s = slo_s
    b.classes[c].allowed = allowed
    b.classes[c].share = 0.0
    b.classes[c].advance_s = 0.0


cdef void balance_finished(Balance *b, int c, bint missed) noexcept nogil:
    cdef int i
    CHECK(0 <= c)
    CHECK(c < b.count)
    # Before this query counts: otherwise the class's share would always be too large here.
    if missed and b.classes[c].share > 0.0:
        _advance(b, c)
    b.finished = min(b.finished + 1.0, MEMORY)
    for i in range(b.count):
        b.classes[i].share += ((i == c) - b.classes[i].share) / b.finished


cdef inline double _part(const QueryClass *q, double usual) noexcept nogil:
    """The part of the step that a class moves; `usual` is share · allowed if all were equal."""
    return min(1.0, MAX_STEPS * q.share * q.allowed / usual)


cdef void _advance(Balance *b, int c) noexcept nogil:
    cdef QueryClass *q = b.classes
    cdef double slo_s = 0.0       # mean
    cdef double allowed = 0.0     # mean
    cdef double alike = 0.0       # 1 / (how many classes there were if all had the same share)
    cdef double usual
    cdef double step_s
    cdef double sum_s = 0.0       # of the advances, by share
    cdef double shifted = 0.0     # how much of the queries shares in the shift
    cdef int i
    for i in range(b.count):
        slo_s += q[i].share * q[i].slo_s
        allowed += q[i].share * q[i].allowed
        alike += q[i].share * q[i].share
    b.missed += 1.0
    usual = alike * allowed
    step_s = STEP * max(1.0, EARLY / (1.0 + b.missed)) * slo_s
    step_s *= _part(&q[c], usual) * usual / (q[c].share * q[c].allowed)
    # Limited before the shift, so that the part beyond the limit is not taken from other classes.
    q[c].advance_s = limited_advance_c(q[c].advance_s + step_s, q[c].slo_s)
    for i in range(b.count):
        sum_s += q[i].share * q[i].advance_s
        shifted += q[i].share * _part(&q[i], usual)
    for i in range(b.count):
        q[i].advance_s = limited_advance_c(
            q[i].advance_s - _part(&q[i], usual) * sum_s / shifted, q[i].slo_s
        )


cdef class ClassBalance:
    """The advances of up to `CLASSES` classes of queries, learnt from their misses."""

    MAX_CLASSES = CLASSES

    def __cinit__(self):
        balance_init(&self.b)

    def set_class(self, int number, double slo_s, double allowed):
        """Start class `number`, a new one or a replacement, with advance 0.

        `slo_s` is its latency objective in s, `allowed` the share of its queries that may miss it.
        ValueError for a number beyond the next, or values out of range.
        """
        if not 0 <= number <= min(self.b.count, CLASSES - 1):
            raise ValueError(f"class {number} is not one of {self.b.count}, nor the next")
        if not (0.0 < slo_s < 1e9 and 0.0 < allowed < 1.0):
            raise ValueError(f"slo_s {slo_s} or allowed {allowed} is out of range")
        balance_set_class(&self.b, number, slo_s, allowed)

    def finished(self, int number, bint missed):
        """A query of the class has ended. ValueError for an unknown class. O(classes)."""
        self.check(number)
        balance_finished(&self.b, number, missed)

    def advance(self, int number):
        """Seconds by which the class is served earlier than its SLO says; negative: later.

        ValueError for an unknown class. O(1).
        """
        self.check(number)
        return self.b.classes[number].advance_s

    cdef int check(self, int number) except -1:
        if not 0 <= number < self.b.count:
            raise ValueError(f"class {number} is not one of {self.b.count}")
        return 0
