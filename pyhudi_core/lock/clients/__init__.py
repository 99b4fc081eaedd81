"""Clients of the servers that keep locks: connections with bounded requests, and errors without credentials."""
