"""Table services behind one protocol (``service``), listed in one place (``registry``): failed writes and archival."""
