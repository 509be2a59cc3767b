"""Conjunctions of predicates as spans."""

# {attribute: spans.Allowed} of a conjunction. ValueError for one that makes no sense, in words.
# O(operands), squared for those of one `in`.
cdef dict read_conjunction(object conjunction)
