"""Changes as data: what would have to be done to a host, decided from its facts alone."""
