"""Programs that run as root on a host, sent there as one archive (fleet/ssh/remote.py).

They use the standard library only, and no other module of this project. `program` is the entry
point.
"""
