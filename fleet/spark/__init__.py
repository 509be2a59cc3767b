"""Spark sessions, and the Java that they run on."""
