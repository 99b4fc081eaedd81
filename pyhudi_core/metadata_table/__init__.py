"""Hudi's metadata table: a merge-on-read table below ``.hoodie/metadata`` with the data table's files, statistics and keys."""
