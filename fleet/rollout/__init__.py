"""Rolling changes of hosts: releases, configuration, keys, reboots."""
