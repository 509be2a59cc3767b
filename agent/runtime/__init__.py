"""What every agent process is made of: event loop, signals, disk writer, SQLite, command line."""
