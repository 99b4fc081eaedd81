"""Table services: archival, by itself after commits or on request; and the doctor, which only looks."""
