"""Entity search: entities in structured data, their facets and pages."""
