"""A fleet day by day: its state, commands on hosts, their journals, restarts, and what is wrong."""
