"""The process of an IAD: sockets and loops around the pure schedulers."""
