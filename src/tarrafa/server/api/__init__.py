"""REST API for programs, its routes and its OpenAPI document."""
