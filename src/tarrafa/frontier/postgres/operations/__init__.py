"""Calls on one PostgreSQL server, by subject: functions of a database session, or of one of its transactions."""
