"""Tables as assets: the decorators, the IO manager, and the step of an asset."""
