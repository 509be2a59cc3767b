"""The gateway: a page of the rooms, HTTP, MQTT and further outputs; a client of a master."""
