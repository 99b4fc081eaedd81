"""`HudiLakeComponent`: a lake in YAML."""
