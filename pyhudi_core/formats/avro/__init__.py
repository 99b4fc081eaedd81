"""Avro: container files of one record (`container`), and many records to Arrow columns and back (`columns`, `encoding`)."""
