"""Experiment: load changes floors, and the loop from logs to placement has topics follow."""
