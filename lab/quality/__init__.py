"""Evaluation of the quality checks: on labelled real faults, and on injected ones."""
