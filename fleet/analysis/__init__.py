"""`fleet lake` and `fleet report`: a session, folders, and the jobs of the pipeline."""
