"""Programs that run as root on a host, sent there as one archive (fleet/ssh/remote.py).

Standard library only, and nothing of ours from elsewhere. `program` is where it begins.
"""
