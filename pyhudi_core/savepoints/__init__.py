"""Savepoints and holds: a clean deletes no file of their states. A savepoint is an instant of the timeline; a hold ends at a given time."""
