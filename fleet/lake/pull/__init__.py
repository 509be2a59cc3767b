"""`fleet logs pull`: collects records and readings from all hosts into the landing zone."""
