"""Notifications: an outbox, webhooks and e-mail."""
