"""Sensor drivers, one folder each. See `sensors.base` for what a driver is."""
