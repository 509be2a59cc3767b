"""Wire formats: messages and their codec, configuration files, log records."""
