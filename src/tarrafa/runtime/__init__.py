"""Runtime of a process: data directory, process identity, sandbox, heartbeat and token."""
