"""Export and import of a frontier."""
