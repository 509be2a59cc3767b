"""Paths on a host, and their owners."""

RELEASES = "/opt/sanderling/releases"
CURRENT = "/opt/sanderling/current"
JOURNAL = "/var/lib/sanderling-deploy"
# This archive, for the timer and for the start of the host.
UNDO = f"{JOURNAL}/undo.py"
UNITS = "/etc/systemd/system"
SYSUSERS = "/usr/lib/sysusers.d/sanderling.conf"
CONFIGURATION = "/etc/sanderling"
# Beside it, so that paths which lead out of it lead to the same.
TRIED = "/etc/.sanderling-tried"
STATE = "/var/lib/sanderling"
USER = "sanderling"
