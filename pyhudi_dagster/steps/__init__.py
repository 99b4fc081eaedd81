"""One action of a Dagster step on one table: input, write, adoption, Terminate."""
