"""Schedules: recurrence of times, and the decision to start, repeat or stop a run."""
