"""`fleet lake sql`: Spark SQL over the lake's tables."""
