"""k-TCP's experiments on a simulated broker: latency models, packings, drift."""
