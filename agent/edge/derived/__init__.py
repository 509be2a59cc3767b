"""Derived values: what the node's clone computes, in its history and at its actuator."""
