"""Quality of readings: what is wrong with a value, found channel by channel as it arrives."""
