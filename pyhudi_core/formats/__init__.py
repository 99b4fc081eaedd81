"""File formats: bytes to values and back, with bounded memory and typed errors. No storage, no clock."""
