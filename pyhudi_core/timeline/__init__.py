"""The timeline: the actions on a table, in order. Active, archived, and ``hoodie.properties``."""
