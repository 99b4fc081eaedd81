"""Hudi's metadata table: a merge-on-read table below ``.hoodie/metadata`` that knows the data table's files, statistics and keys."""
