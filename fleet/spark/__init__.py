"""Spark: a Java to run it, and the one place that makes a session."""
