"""Experiments on one machine: a fleet of real processes, its load, and the same load in virtual
time."""
