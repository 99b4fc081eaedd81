"""The commit protocol: how writers and services change the timeline."""
