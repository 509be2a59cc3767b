"""The registration service (DRS) of a market: a pure directory, and the process around it."""
