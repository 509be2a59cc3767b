"""Everything that runs on a Pi or on a master."""
