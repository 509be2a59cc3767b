"""Matching notifications against many conjunctions."""
