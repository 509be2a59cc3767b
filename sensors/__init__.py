"""Sensor drivers, one folder each; `sensors.base` defines their interface."""
