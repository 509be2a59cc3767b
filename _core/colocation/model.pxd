"""Predicted latency of co-located processors: a queueing model, and trees for what it leaves over.

Plain C for other Cython modules, without the GIL; any number of threads may read one model.
"""

cdef enum:
    MAX_TOPICS = 32
    FEATURES = 10

cdef struct Load:                 # a topic as the model sees it; times in s, rates in 1/s
    double service_s              # CPU time of a message on an idle master, > 0
    double rate                   # messages a second of all publishers, >= 0
    double publishers             # that publish periodically; 0: arrivals are Poisson
    double objective_s            # the latency that `quantile` of the messages must keep
    double quantile               # 0 < quantile < 1

cdef struct Parameters:
    bint shared                   # one queue by deadline, a worker a core; else a thread a topic
    bint serial                   # of one queue: a topic's messages are processed one at a time
    double cores
    double interference           # n busy slow each other by 1 + interference (n - 1)
    double service_scale          # factor of service_s
    double overhead_s             # of every message, whatever the load
    double service_variance       # of a service time, over its squared mean
    double speed_variance         # weight of the variance that others' activity makes
    double window_s               # length of the measured window: how long an overload grows

cdef struct Node:                 # of a tree; a leaf points to itself
    double threshold
    double value                  # of a leaf, added to the logarithm of the latency
    int feature
    int left                      # index in the list of all nodes; taken if feature <= threshold
    int right

cdef struct Forest:
    Node *nodes                   # owned
    int *roots                    # owned
    int trees
    int depth                     # steps from a root that surely reach a leaf

# Writes the latencies (s) of `count` co-located topics, 1..MAX_TOPICS, to `latency_s`; `features`
# [count * FEATURES] may be NULL. O(count^3) with a thread a topic, O(count^2) with one queue, and
# O(count * trees * depth).
cdef void predict(
    const Parameters *p, const Forest *f, const Load **load, int count,
    double *latency_s, double *features
) noexcept nogil


cdef class Colocation:
    cdef Parameters p
    cdef Forest f


cdef class Candidates:
    cdef readonly Colocation model
    cdef Load *loads
    cdef readonly int count
    cdef const Load *chosen[MAX_TOPICS]
    cdef int choose(self, object topics) except -1
