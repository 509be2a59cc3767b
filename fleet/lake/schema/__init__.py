"""Folders and tables of the lake, for all readers and writers; independent of Spark."""
