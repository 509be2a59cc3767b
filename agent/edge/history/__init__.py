"""The local history: readings as row groups in a SQLite file, with a write-ahead log."""
