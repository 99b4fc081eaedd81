"""The write pipeline: from a batch to files, and from files to a commit."""
