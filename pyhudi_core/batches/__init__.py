"""Batches in one commit: many small writers hand their rows in beside the table, and one of them commits all that wait.

A writer puts its rows into a file below ``.hoodie/.aux/.pyhudi/batches`` (``handed_in.py``). Then it asks for the lead, which is a lock of its own:
whoever gets the lead takes all waiting files, in the order in which they came, and makes one upsert of them (``combined.py``). The commit names the
token of each batch with its counts. A writer that sees its file gone finds its token in the commit, and returns.

Invariants:

- A batch is in at most one commit. The commit requires that none of its tokens is in a commit that completed before it, and the requirement is
  checked where the commit is decided. So two leaders at once (one of them was asleep) do no harm.
- A file goes only after its answer is there: a commit that names its token. So the death of a leader loses nothing: the files that it took still
  wait, or are found in its commit.
- Extra metadata and requirements of the writer go with its batch. A requirement that fails refuses its batch alone.
- A batch that is refused stops no other one: after an error of the rows, the leader commits each batch alone.
- A batch whose writer has ended or given up is dropped, not committed: its rows would come into the table after those of a later write.
"""
