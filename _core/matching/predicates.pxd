"""Conjunctions of predicates as interval sets."""

# {attribute: IntervalSet} of a conjunction. ValueError for an invalid one; its text is the reason.
# O(operands), and O(operands²) for those of one `in`.
cdef dict read_conjunction(object conjunction)
