"""Task scheduling at the master of an IAD: deadlines, nodes, queues, dispatch."""
