"""Authentication and authorization of console and REST API."""
