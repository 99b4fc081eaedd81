"""Clients of lock servers: connections with bounded requests, and errors without credentials."""
