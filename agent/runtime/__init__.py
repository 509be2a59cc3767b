"""Runtime of every agent process: event loop, signals, disk writer, SQLite, command line."""
