"""Microbenchmarks for bench/: loops around single calls, timed inside Cython without the GIL.

Each function returns the median of its timings in seconds, including the cost of reading the clock,
unless stated otherwise.
"""

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc, qsort

from _core.queue.edf cimport Edf, edf_free, edf_init, edf_pop, edf_push
from _core.deadlines.histogram cimport BUCKET_COUNT
from _core.deadlines.matrix cimport matrix_log_g, matrix_search
from _core.deadlines.order_statistics cimport NodeSet, UnloadedModel
from _core.deadlines.unloaded cimport ColumnSet, Model, model_observe, model_quantile, model_refresh

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *time)


cdef inline double _now() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return t.tv_sec + t.tv_nsec * 1e-9


cdef int _compare(const void *a, const void *b) noexcept nogil:
    cdef double x = (<const double *>a)[0]
    cdef double y = (<const double *>b)[0]
    return (x > y) - (x < y)


cdef double _median(double *times, int count) noexcept nogil:
    qsort(times, count, sizeof(double), _compare)
    return times[count // 2]


def edf_push_pop(const double[::1] keys, int queued):
    """Seconds for one push and pop, the mean over the keys after the first `queued`."""
    cdef Edf queue
    cdef Py_ssize_t i
    cdef double started
    cdef double took
    edf_init(&queue)
    with nogil:
        for i in range(queued):
            edf_push(&queue, keys[i], <void *>1)
        started = _now()
        for i in range(queued, keys.shape[0]):
            edf_push(&queue, keys[i], <void *>1)
            edf_pop(&queue)
        took = (_now() - started) / (keys.shape[0] - queued)
    edf_free(&queue)
    return took


def deadline_after_change(
    UnloadedModel model, NodeSet nodes, double p_t, const int[::1] buckets
):
    """(refresh, evaluation): each sample goes to another column of the set, which is refreshed."""
    cdef Model *m = &model.m
    cdef ColumnSet *s = &nodes.s
    cdef int count = <int>buckets.shape[0]
    cdef double *times = <double *>malloc(2 * count * sizeof(double))
    cdef double started
    cdef double settled
    cdef double total = 0.0
    cdef int32_t column
    cdef int i
    if times == NULL:
        raise MemoryError
    model_quantile(m, s, p_t)
    with nogil:
        for i in range(count):
            column = s.chosen.column[(i * 7919) % s.chosen.size]
            model_observe(m, column, buckets[i])
            started = _now()
            model_refresh(m, column)
            settled = _now()
            total += model_quantile(m, s, p_t)
            times[count + i] = _now() - settled
            times[i] = settled - started
        started = _median(times, count)
        settled = _median(times + count, count)
    free(times)
    return started, settled


def deadline_cached(UnloadedModel model, NodeSet nodes, double p_t, int count):
    """Seconds for one call when nothing changed, the mean."""
    cdef double total = model_quantile(&model.m, &nodes.s, p_t)
    cdef double started = _now()
    cdef int i
    with nogil:
        for i in range(count):
            total += model_quantile(&model.m, &nodes.s, p_t)
    return (_now() - started) / count


def deadline_without_start(UnloadedModel model, NodeSet nodes, double target, int count):
    """Seconds for one search over all buckets, no previous answer known, the mean."""
    cdef double total = 0.0
    cdef double started = _now()
    cdef int bucket
    cdef int i
    with nogil:
        for i in range(count):
            bucket = -1
            total += matrix_search(&model.m.matrix, &nodes.s.chosen, target, &bucket)
    return (_now() - started) / count


def read_row(UnloadedModel model, NodeSet nodes, int bucket, int count):
    """Seconds to sum one row over the set's columns, the mean."""
    cdef double total = 0.0
    cdef double started = _now()
    cdef int i
    with nogil:
        for i in range(count):
            total += matrix_log_g(&model.m.matrix, &nodes.s.chosen, bucket)
    return (_now() - started) / count


def log_cdf_rows(UnloadedModel model, NodeSet nodes):
    """The log-CDFs of the set's columns as float32 bytes, bucket-major."""
    cdef Model *m = &model.m
    cdef ColumnSet *s = &nodes.s
    cdef int32_t i
    cdef int b
    cdef bytearray rows = bytearray(BUCKET_COUNT * s.chosen.size * sizeof(float))
    cdef float *cell = <float *><char *>rows
    for b in range(BUCKET_COUNT):
        for i in range(s.chosen.size):
            cell[0] = m.matrix.cells[<size_t>b * m.matrix.stride + s.chosen.column[i]]
            cell += 1
    return bytes(rows)
