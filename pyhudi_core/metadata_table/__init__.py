"""Hudi's metadata table: a merge-on-read table below ``.hoodie/metadata``. It lists the data table's files, with their statistics and indexes."""
