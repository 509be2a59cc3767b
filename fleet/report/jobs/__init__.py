"""Spark jobs over the lake: functions from DataFrames to DataFrames."""
