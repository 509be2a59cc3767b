"""`fleet up`: one master and one node on this machine, without a terminal."""
