"""A folder that is not a table becomes one: by an import of files, by a bootstrap, or by the recovery of a lost ``.hoodie``."""
