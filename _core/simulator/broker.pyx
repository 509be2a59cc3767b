"""A broker that processes messages, simulated: a thread a topic, or one queue for all topics.

With a thread a topic (the k-TCP paper's broker) a topic's messages are served one at a time, in
order of arrival, and topics share the cores: each of n active ones runs at the speed
min(1, cores / n) / (1 + interference (n - 1)). With one queue by deadline there are as many workers
as cores; each takes the most urgent message, and n busy ones slow each other in the same way.

Arrivals and service times are given, so a run is a function of its input; nothing is drawn here.
"""

from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

from _core.queue.edf cimport Edf, edf_free, edf_init, edf_pop, edf_push

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    MAX_SLOTS = 64                # topics with a thread each, or workers
    IDLE = -1


cdef struct Slot:                 # a topic's thread, or a worker
    int64_t message               # IDLE or the number of the message that it serves
    double target                 # work that each active slot will have done by its end


cdef struct Broker:
    Slot[MAX_SLOTS] slots
    int count                     # of slots
    int active
    double done                   # work in s that an always active slot would have done by now
    double[MAX_SLOTS + 1] speed   # of each, by how many are active


cdef void _start(Broker *b, int slot, int64_t message, double service_s) noexcept nogil:
    CHECK(0 <= slot)
    CHECK(slot < b.count)
    CHECK(b.slots[slot].message == IDLE)
    b.slots[slot].message = message
    b.slots[slot].target = b.done + service_s
    b.active += 1


cdef inline int _first_to_end(const Broker *b) noexcept nogil:
    """The active slot that ends first, or IDLE."""
    cdef double least = INFINITY
    cdef int found = IDLE
    cdef int i
    for i in range(b.count):
        if b.slots[i].message != IDLE and b.slots[i].target < least:
            least = b.slots[i].target
            found = i
    return found


cdef inline int _idle(const Broker *b) noexcept nogil:
    cdef int i
    for i in range(b.count):
        if b.slots[i].message == IDLE:
            return i
    return IDLE


cdef inline int64_t _popped(Edf *queue) noexcept nogil:
    return <int64_t><size_t>edf_pop(queue) - 1


cdef int _run(
    Broker *b,
    const int32_t[::1] topic,
    const double[::1] arrived_s,
    const double[::1] service_s,
    double[::1] finished_s,
    const double[::1] budget_s,
    bint shared,
    Edf *queue,
    int64_t *following,           # [messages] the next message of the same topic, or IDLE
) noexcept nogil:
    """0, or -1 if memory ran out."""
    cdef int64_t count = topic.shape[0]
    cdef int64_t arriving = 0
    cdef int64_t message
    cdef double now = 0.0
    cdef double end
    cdef int slot
    while arriving < count or b.active > 0:
        slot = _first_to_end(b)
        end = INFINITY
        if slot != IDLE:
            end = now + max(b.slots[slot].target - b.done, 0.0) / b.speed[b.active]
        if arriving < count and arrived_s[arriving] < end:
            b.done += (arrived_s[arriving] - now) * b.speed[b.active]
            now = arrived_s[arriving]
            slot = _idle(b) if shared else topic[arriving]
            if slot == IDLE:
                end = now + budget_s[topic[arriving]]
                # An item is never NULL: the number of the message plus 1.
                if edf_push(queue, end, <void *><size_t>(arriving + 1)) == 0:
                    return -1
            elif b.slots[slot].message == IDLE:
                _start(b, slot, arriving, service_s[arriving])
            arriving += 1
            continue
        b.done = b.slots[slot].target
        now = end
        message = b.slots[slot].message
        finished_s[message] = now
        b.slots[slot].message = IDLE
        b.active -= 1
        message = _popped(queue) if shared else following[message]
        if message != IDLE and message < arriving:
            _start(b, slot, message, service_s[message])
    return 0


cdef void _link(const int32_t[::1] topic, int64_t *following) noexcept nogil:
    """The next message of each message's topic."""
    cdef int64_t[MAX_SLOTS] latest
    cdef int64_t i
    for i in range(MAX_SLOTS):
        latest[i] = IDLE
    for i in range(topic.shape[0] - 1, -1, -1):
        following[i] = latest[topic[i]]
        latest[topic[i]] = i


cdef int _check(
    const int32_t[::1] topic,
    const double[::1] arrived_s,
    const double[::1] service_s,
    double[::1] finished_s,
    int topics,
) except -1:
    cdef int64_t count = topic.shape[0]
    cdef int64_t i
    if not count == arrived_s.shape[0] == service_s.shape[0] == finished_s.shape[0]:
        raise ValueError("topic, arrived_s, service_s and finished_s have different lengths")
    for i in range(count):
        if not 0 <= topic[i] < topics:
            raise ValueError(f"message {i}: topic {topic[i]} is not in 0..{topics - 1}")
        if not (isfinite(arrived_s[i]) and arrived_s[i] >= (arrived_s[i - 1] if i else 0.0)):
            raise ValueError(f"message {i}: arrived_s must be finite, ascending and not negative")
        if not (isfinite(service_s[i]) and service_s[i] > 0.0):
            raise ValueError(f"message {i}: service_s = {service_s[i]} is not a time above 0")
    return 0


def simulate_broker(
    const int32_t[::1] topic,
    const double[::1] arrived_s,
    const double[::1] service_s,
    double[::1] finished_s,
    *,
    int topics,
    int cores,
    double interference,
    const double[::1] budget_s=None,
):
    """Serve the messages, and write the end of each to `finished_s`.

    Message i of topic `topic[i]` arrives at `arrived_s[i]` (ascending) and needs `service_s[i]` of
    a core that nothing else uses. Without `budget_s` each topic has a thread; with it, a time in s
    for each topic, there is one queue in order of arrival + budget and a worker a core. ValueError
    for what does not fit together, and beyond 64 topics or cores. O(messages · topics).
    """
    cdef Broker broker
    cdef Edf queue
    cdef bint shared = budget_s is not None
    cdef int64_t *following
    cdef int failed
    cdef int i
    if not (1 <= topics <= MAX_SLOTS and 1 <= cores <= MAX_SLOTS):
        raise ValueError(f"{topics} topics or {cores} cores are not in 1..{MAX_SLOTS}")
    if not 0.0 <= interference < 1e6:
        raise ValueError(f"interference = {interference} is not 0 or above")
    if shared and budget_s.shape[0] != topics:
        raise ValueError(f"budget_s has {budget_s.shape[0]} entries for {topics} topics")
    _check(topic, arrived_s, service_s, finished_s, topics)
    broker.count = cores if shared else topics
    broker.active = 0
    broker.done = 0.0
    broker.speed[0] = 1.0
    for i in range(broker.count):
        broker.slots[i].message = IDLE
        broker.speed[i + 1] = min(1.0, cores / (i + 1.0)) / (1.0 + interference * i)
    following = <int64_t *>malloc(max(topic.shape[0], 1) * sizeof(int64_t))
    if following == NULL:
        raise MemoryError
    _link(topic, following)
    edf_init(&queue)
    with nogil:
        failed = _run(
            &broker, topic, arrived_s, service_s, finished_s, budget_s, shared, &queue, following
        )
    edf_free(&queue)
    free(following)
    if failed:
        raise MemoryError
