"""Experiments on one machine: a fleet of real processes under load, and the same load in virtual
time."""
