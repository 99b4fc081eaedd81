"""States whose files no clean deletes: savepoints, which are instants of the timeline, and holds, which end at a time."""
