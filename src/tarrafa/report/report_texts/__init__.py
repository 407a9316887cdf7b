"""Names of statuses."""
