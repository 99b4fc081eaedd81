"""Archival of the timeline: `archival` is the service, `limits` selects the instants."""
