"""Archival of the timeline: `archival` is the service, `limits` says how far it may go."""
