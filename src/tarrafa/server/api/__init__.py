"""REST API for programs, its registry and its OpenAPI document."""
