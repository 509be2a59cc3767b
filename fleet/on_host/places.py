"""Paths on a host, and their owners."""

RELEASES = "/opt/sanderling/releases"
CURRENT = "/opt/sanderling/current"
JOURNAL = "/var/lib/sanderling-deploy"
# This archive, for the timer and for use at boot.
UNDO = f"{JOURNAL}/undo.py"
UNITS = "/etc/systemd/system"
SYSUSERS = "/usr/lib/sysusers.d/sanderling.conf"
CONFIGURATION = "/etc/sanderling"
# In the same folder, so that relative paths that lead out of it resolve to the same files.
TRIED = "/etc/.sanderling-tried"
STATE = "/var/lib/sanderling"
USER = "sanderling"
