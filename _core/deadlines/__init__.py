"""Queueing deadlines from order statistics of response times (DSSP Eqs. 2-6)."""
