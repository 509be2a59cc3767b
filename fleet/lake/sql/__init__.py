"""`fleet lake sql`: the tables as Spark SQL sees them."""
