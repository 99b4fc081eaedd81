"""The timeline of layout 1, for table versions up to 6 (Hudi 0.x, and 1.x if configured so). Pyhudi only reads it.

Read ``layout.py`` first (names and contents of the active timeline), then ``archived_logs.py``. Two other differences of such tables are outside this
folder. `file_groups/visibility.py` assigns logs to the base file that their names contain, as in tables that were raised from version 6.
`merge/precombine.py` is the law by which logs are merged.
"""
