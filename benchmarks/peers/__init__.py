"""The peers. Each runs in its own process, in the `.interop` environment, and answers JSON lines."""
