"""Requests of clients, operators and other masters: sockets, and links to other masters."""
