"""Table services behind one protocol (`service`), listed in one place (`registry`): compaction, clustering, cleaning, archival and others.

A service with a plan of its own is a package. `auto` gives each service its turn after a commit.
"""
