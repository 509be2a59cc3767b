"""Quality checks of readings: flags for each value, computed channel by channel on arrival."""
