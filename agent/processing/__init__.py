"""Message processors: queues, dispatch to worker processes, lifecycle, checkpoints; all pure."""
