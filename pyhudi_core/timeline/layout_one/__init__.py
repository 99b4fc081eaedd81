"""The timeline of layout 1, which table versions up to 6 have (Hudi 0.x, and 1.x if it is told so). It is only read.

Read ``layout.py`` first (names and contents of the active timeline), then ``archived_logs.py``. What else differs in such tables is the same
code as in
tables that were raised from version 6 (`file_groups/visibility.py`: logs are named by the base file below them), and the law by which logs are merged
(`merge/precombine.py`).
"""
