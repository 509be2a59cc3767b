"""Triggers: the expression language, its evaluation, and the raised/cleared state; all pure."""
