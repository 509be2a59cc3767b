"""The auto-scaler under a load that steps up and down."""
