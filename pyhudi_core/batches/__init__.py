"""Combine small batches in one commit: many writers put their rows into files, and one of them commits all waiting batches.

A writer puts its rows into a file below ``.hoodie/.aux/.pyhudi/batches`` (``handed_in.py``). Then it asks for the lead, which is a separate lock. The
leader takes all waiting files in the order of their arrival, and makes one upsert of them (``combined.py``). The commit names the token of each batch
with its counts. When the file of a batch is gone, its writer finds the token in the commit, and returns.

Invariants:

- A batch is in at most one commit. The commit requires that no earlier commit contains one of its tokens; the decision checks this. So two leaders at
  once do no harm.
- A file is removed only after its answer exists: a commit that names its token. So a leader that dies loses nothing: its files still wait, or its
  commit answers them.
- Extra metadata and requirements of the writer go with its batch. A requirement that fails refuses its batch alone.
- A refused batch does not stop the others: after an error of the rows, the leader commits each batch alone.
- A batch whose writer has ended or given up is dropped, not committed: its rows would be written after the rows of a later write. If its writer still
  waits (their clocks differ), the writer commits it alone.
"""
