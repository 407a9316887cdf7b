"""Handles RDF as N-Quads: statements, entities and their summaries, vocabulary prefixes."""
