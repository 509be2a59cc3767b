"""Processes for tests, benchmarks and the lab: agents, an SSH server."""
