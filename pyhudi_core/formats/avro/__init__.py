"""Avro: `container` reads and writes files with one record; `columns` decodes many records to Arrow columns, and `encoding` encodes them."""
