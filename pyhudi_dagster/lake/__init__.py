"""The lake as a resource, and what an asset says of its table."""
