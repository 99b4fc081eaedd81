"""The peers, each a process of its own in the `.interop` environment that answers JSON lines."""
