"""Table services behind one protocol (`service`), listed in one place (`registry`): compaction, clustering, cleaning, archival and others.

A service with its own plan is a package. `registry.after_commit` runs the services that are due after a commit.

How to add a compaction strategy:

1. ``compaction/compaction_rules.py``: the rule, and its line in ``RULES``. A rule is a pure function of the operations, the options and the time of
   the plan (an instant time); it returns the chosen operations, in its order. `_bounded` stops where `hoodie.compaction.target.io` is reached.
2. ``options/compaction.py``: a line in ``STRATEGIES`` with its word, what it selects, and Hudi's class, whose name gives the word:
   ``LogFileNumBasedCompactionStrategy`` is ``log_file_num``, ``BoundedIOCompactionStrategy`` is ``bounded_io``. Remove the
   class from ``_LATER``. A strategy that Hudi does not have has None, and a line in ``docs/spec-deviations.md``. A new parameter is a field of
   `CompactionOptions`.
3. ``tests/unit/services/test_compaction_rules.py``: lines in ``STRATEGIES``, with orders that no other strategy has.
4. ``python scripts/generate_docs.py`` writes ``docs/options.md``. Add a line to ``CHANGELOG.md``. Run ``pytest`` on that test, then ``make
   check`` and ``make test``.

A strategy of clustering has its lines in ``PLANS`` and ``EXECUTIONS`` of ``options/clustering.py``, and its groups in
``clustering/groups_to_cluster.py``.

How to add a service:

1. Write a module here, or a package if it has a plan. The class extends `PlannedService` (`planned_service`) if its plans are on the timeline, else
   `TableService` (`service`). ``compaction/compaction.py`` is the example.
2. ``compaction_plan.py`` is the value and its Avro record, ``slices_to_compact.py`` makes it, ``compaction_execution.py`` executes it in the frame of
   `plan_run`. The figures of a plan get an estimate by `with_seconds` (`estimates`); an execution reports by `Steps` (`progress`).
3. ``transaction/requested_plans.py`` puts a plan on the timeline, ``transaction/plan_executors.py`` registers the executing process, and `publish` of
   ``write/attempt.py`` commits its `Attempt`. ``conflicts/concurrent.py`` reads pending plans for other writers.
4. Add a line in `registry`, its name in `upkeep_rules`, and a property in ``table_services.py``. The command ``pyhudi services``, auto mode and
   Dagster find it there. Its own command is a line of ``cli/service_commands.py``, with a line in ``tests/support/commands.py``.
5. Test orders and crashes in ``tests/reliability/test_<service>_interleaved.py``, which uses ``tests/reliability/service_runs.py``. Test the reported
   progress in ``tests/unit/services/test_progress.py``. A request to the storage that no crash test reaches is in ``NOT_CRASHED`` of
   ``tests/reliability/test_crashes.py``, with the reason.
6. Describe the service in ``docs/services.md``, and announce it in ``CHANGELOG.md``.
"""
