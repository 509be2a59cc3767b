"""Power cuts, full disks, read-only remounts and clock jumps against the history and the agent."""
