"""The lake: its folders and its tables, for everybody who writes or reads it; no Spark here."""
