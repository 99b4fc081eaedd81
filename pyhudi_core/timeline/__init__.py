"""The timeline: the actions on a table in their order, active and archived. Also the file ``hoodie.properties``."""
