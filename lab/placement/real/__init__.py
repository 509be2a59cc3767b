"""Experiment: the latency model on real masters, with one queue and with a worker a topic."""
