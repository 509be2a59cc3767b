"""Changes of hosts: releases, configuration, keys, reboots, a few hosts at a time."""
