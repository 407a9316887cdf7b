"""Supervisor: the processes of one data directory, and when a collection is finished."""
