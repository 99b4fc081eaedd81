"""Archival of the timeline: `archival` is the service, `limits` says which instants it may take."""
