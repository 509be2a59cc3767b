"""adjtimex(2): whether the wall clock is synchronised. ctypes would take 0.4 MiB on every node."""

from libc.string cimport memset


cdef extern from "<sys/timex.h>" nogil:
    struct timex:
        pass

    int adjtimex(timex *request)
    int TIME_ERROR


def synchronised() -> bool:
    """Whether the kernel considers the wall clock synchronised from the network, by any daemon;
    setting the clock by hand ends that."""
    cdef timex request
    memset(&request, 0, sizeof(request))  # a request of zeros only reads
    cdef int state = adjtimex(&request)
    return state != -1 and state != TIME_ERROR
