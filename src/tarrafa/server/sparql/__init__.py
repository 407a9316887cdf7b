"""SPARQL endpoint."""
