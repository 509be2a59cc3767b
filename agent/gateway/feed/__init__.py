"""What the gateway hears of its masters, rooms and alerts, and frames of them for browsers."""
