"""For tests, benchmarks and the lab: agents, an SSH server, an inventory with every feature."""
