"""Order statistics of unloaded response times over any set of nodes (DSSP Eqs. 2-6).

`UnloadedModel` and `NodeSet` are thin classes over the plain C of `_core.deadlines.unloaded`.
"""

from libc.stdint cimport int32_t, uint64_t

from _core.deadlines.unloaded cimport ColumnSet, Model


cdef class NodeSet:
    cdef ColumnSet s
    cdef uint64_t owner           # `identity` of the model that made it
    cdef object __weakref__


cdef class UnloadedModel:
    cdef Model m
    cdef uint64_t identity        # unique among the models of this process
    cdef dict interned            # columns -> NodeSet, least recently used first
    cdef bint lent                # in use by a simulation without the GIL: other calls raise
    cdef int check_own(self) except -1
    cdef int32_t checked_column(self, object column) except -1
    cdef int checked_set(self, NodeSet nodes, double p_t) except -1
    cdef int advance(self, double now_s) except -1
