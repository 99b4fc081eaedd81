"""Combine small batches in one commit: many writers put their rows into files, and one of them commits all waiting batches.

A writer puts its rows into a file below ``.hoodie/.aux/.pyhudi/batches`` (``handed_in.py``). Then it asks for the lead, which is a separate lock. The
leader takes all waiting files in the order of their arrival, and makes one upsert of them (``combined.py``). The commit names the token of each batch
with its counts. When the file of a batch is gone, its writer finds the token in the commit, and returns.

Invariants:

- A batch is in at most one commit. The commit requires that no earlier commit contains one of its tokens; the decision checks this. So two leaders at
  once do no harm.
- A file is removed only after its answer exists, which is a commit that names its token. So if a leader dies, nothing is lost: the files still wait,
  or its commit answers them.
- Extra metadata and requirements of the writer are stored with its batch. A requirement that fails refuses only its own batch.
- A refused batch does not stop the others: if the rows together raise an error, the leader commits each batch alone.
- If the writer of a batch has ended or given up, the batch is dropped and not committed: its rows would be written after the rows of a later write.
  If the writer is still waiting (because clocks differ), it commits the batch alone.
"""
