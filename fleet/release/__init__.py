"""Releases: cross-built for the hosts' machines and Pythons, stored with the fleet."""
