"""Write handles: each writes the rows of one file group (Hudi's create, merge and append handles).

`base` is their protocol, and `choice` chooses the handle of a file group. `new_file` writes a new base file; create and merge handles use it.

How to add a write handle:

1. Write a module here with a class that follows `WriteHandle` of `base`.
2. Let `choice` choose it, by the plan and the newest slice of the file group. The plan says whether rows are appended (`Bucket.appends` in
   ``write/plan.py``).
3. Test it in ``tests/unit/write``, and its crashes in ``tests/reliability``.

Code that rewrites files without new rows is a function here (for example `compact`); its service calls it.
"""
