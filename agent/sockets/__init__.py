"""ROUTER and DEALER sockets of all agents, and the keys that protect them."""
