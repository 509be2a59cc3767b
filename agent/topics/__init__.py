"""Publish-process-subscribe, pure: spools of notifications, and who has acknowledged what."""
