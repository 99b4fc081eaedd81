"""Expiry of partitions (Hudi's TTL): `expiry` is the service, `partitions_to_expire` chooses the partitions."""
