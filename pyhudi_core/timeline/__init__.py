"""The timeline: the ordered actions on a table, active and archived. Also the file ``hoodie.properties``."""
