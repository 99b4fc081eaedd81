"""Table services behind one protocol (`service`), listed in one place (`registry`): compaction, clustering, cleaning, archival and others.

A service with a plan of its own is a package. `after_commit` gives each service its turn after a commit.

How to add a strategy of an existing service, such as a compaction strategy:

1. ``compaction/compaction_rules.py`` (or the rules of the other service): the rule, a pure function of operations, options and time, and its line in
   ``RULES``.
2. ``options/compaction.py``: a line in ``STRATEGIES`` with what it selects, and Hudi's class or None. A new parameter is a field of
   `CompactionOptions` there. For clustering: ``PLANS`` and `ClusteringOptions` in ``options/clustering.py``.
3. ``tests/unit/services/test_compaction_rules.py``: a line in ``STRATEGIES``. A strategy without a line fails there.
4. ``python scripts/generate_docs.py`` writes ``docs/options.md``.

How to add a service:

1. Write a module here, or a package if it has a plan. The class extends `PlannedService` (`planned_service`) if its plans are on the timeline, else
   `TableService` (`service`). ``compaction/compaction.py`` is the example.
2. ``compaction_plan.py`` is the value and its Avro record, ``slices_to_compact.py`` makes it, ``compaction_execution.py`` executes it in the frame of
   `plan_run`. The figures of a plan get an estimate by `with_seconds` (`estimates`); an execution reports by `Steps` (`progress`).
3. ``transaction/requested_plans.py`` puts a plan on the timeline, ``transaction/plan_executors.py`` says who executes it, and `publish` of
   ``write/attempt.py`` commits its `Attempt`. What others see of a pending plan is read in ``conflicts/concurrent.py``.
4. Add a line in `registry`, its name in `upkeep_rules`, and a property in ``table_services.py``. The command ``pyhudi services``, auto mode and
   Dagster find it there. Its own command is a line of ``cli/service_commands.py``.
5. Test orders and crashes in ``tests/reliability/test_<service>_interleaved.py``, which uses ``tests/reliability/service_runs.py``.
"""
