"""What tests of several packages share: small tables, listings of disks, storages that fail on purpose."""
