"""What tests, benchmarks and the lab start: agents, an SSH server."""
