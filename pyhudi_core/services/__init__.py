"""Table services behind one protocol (``service``), listed in one place (``registry``); a package for each."""
