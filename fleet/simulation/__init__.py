"""Simulation of fleets, loads and policies in virtual time, for `fleet plan`, the demo and the
lab."""
