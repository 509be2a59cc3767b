"""Random faults over real processes, a history of everything that clients did and saw, and what was
promised of it."""
