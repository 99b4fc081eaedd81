"""The specification's terms as values: instants, file names, record keys, partition paths, schemas, table properties."""
