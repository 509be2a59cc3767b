"""The registration service (DRS): a process around the directory."""
