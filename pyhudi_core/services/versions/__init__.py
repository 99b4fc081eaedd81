"""Change the version of a table (decision 0114).

Read ``version_plan.py`` first (plan and result), then ``upgrades.py`` (the call of the table, and the order of steps). From version 6 to 8,
``raising_six.py`` makes the new timeline next to the old one (``conversion.py``) and the required base files; the old timeline stays, so that the
table can be restored (``opened_table/old_timeline.py``). ``eight_and_nine.py`` changes between versions 8 and 9, and ``lowering_eight.py`` (with
``conversion_to_six.py``) from 8 to 6.
"""
