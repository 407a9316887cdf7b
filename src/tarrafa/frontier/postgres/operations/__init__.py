"""Calls on one PostgreSQL server, by subject: each class is given the database session, not the server."""
