"""Folders and tables of the lake, for every reader and writer; no Spark here."""
