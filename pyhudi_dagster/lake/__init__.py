"""The lake as a resource, and the settings of an asset for its table."""
