"""Pages made by scripts: a browser without a network of its own runs them, and asks our fetch for what they need."""
