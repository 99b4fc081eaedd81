"""Clustering: `clustering` is the service; the plan, how it is made (`planning`, `rules`), its execution, and the order of rows (`row_curve`)."""
