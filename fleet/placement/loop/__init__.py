"""The loop from logs to placement: models from the lake, a plan of them, a job that follows."""
