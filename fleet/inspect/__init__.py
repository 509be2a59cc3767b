"""Daily operation: status, remote commands, logs, reboots, diagnosis."""
