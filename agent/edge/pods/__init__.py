"""Pods: workers that serve subtasks, in threads or containers."""
