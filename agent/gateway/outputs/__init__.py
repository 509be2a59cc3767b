"""Outputs: what takes readings and alerts out of the gateway by itself, such as MQTT."""
