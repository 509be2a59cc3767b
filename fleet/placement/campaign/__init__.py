"""Campaign on real masters: sets of topics are measured, and the latency model is trained."""
