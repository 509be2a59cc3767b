"""Sockets of all agents: ROUTER and DEALER, CURVE keys, allow-lists, limits on senders."""
