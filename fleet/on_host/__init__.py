"""Everything that runs as root on a host: sent as one archive (fleet/ssh/remote.py), read as one.

Standard library only, and nothing of ours from elsewhere. `program` is where it begins.
"""
