"""Fault injection: processes killed under load, and the effects on the others."""
