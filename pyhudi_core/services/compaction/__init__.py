"""Compaction and log compaction: the services, their plans, how they are made, and their executions."""
