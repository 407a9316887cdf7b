"""Notifications: an outbox and its transports, webhook and e-mail."""
