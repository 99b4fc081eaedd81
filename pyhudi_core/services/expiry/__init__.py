"""Expiry of partitions (Hudi's TTL): `expiry` is the service, `planning` chooses the partitions."""
