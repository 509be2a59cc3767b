"""Frames of the wire, looked at before they are decoded."""
