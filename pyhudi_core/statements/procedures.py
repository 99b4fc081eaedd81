"""CALL: Hudi's procedures under their names and arguments. `PROCEDURES` lists every procedure of Hudi 1.2. An entry has the function that runs the
procedure, or the text that says what to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.naming import nearest
from pyhudi_core.predicates import Predicate
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.statements.calls_files import FILES
from pyhudi_core.statements.calls_services import SERVICES
from pyhudi_core.statements.calls_timeline import TIMELINE
from pyhudi_core.statements.names import Names
from pyhudi_core.statements.procedure import Argument, Procedure, ProcedureCall, Row, here, not_here
from pyhudi_core.statements.text import Words, not_understood

_VERSIONS = (
    "table.upgrade() and table.downgrade(), or pyhudi upgrade and pyhudi downgrade; --plan says before what that takes."
)
_LOGS = "Scans merge log files; table.scan() has their rows, table.key_history(key) what became of one row, pyhudi check the damaged blocks."
_PARTITION_FILES = "Every write makes the file that marks a partition; pyhudi check finds partitions without one."
_AUDIT = "The option pyhudi.lock.audit=true writes the audit log of the lock; table.history() has who made each commit."
_NO_CATALOG = "table.catalog.sync() or pyhudi catalog-sync; table.catalog.plan() says what the catalog lacks."
_BOOTSTRAP = "Scans of bootstrapped tables read the source files; the index of these files is not shown."
_RANGES = (
    "CALL show_metadata_table_column_stats(...) has the ranges; pyhudi services LOCATION says if a clustering is due."
)

_REFUSED: Mapping[str, str] = {
    "cleanup_audit_lock": _AUDIT,
    "copy_to_table": "Write CREATE TABLE ... AS SELECT, or INSERT INTO ... SELECT.",
    "copy_to_temp_view": "Write WITH name AS (SELECT ...) in the query, or keep the result in your program.",
    "delete_marker": "Markers go with the rollback of the write that made them: table.failed_writes.run(), or CALL rollback_to_instant(...).",
    "downgrade_table": _VERSIONS,
    "export_instants": "The files of the timeline are in .hoodie/timeline; CALL show_timeline(...) and pyhudi commit LOCATION INSTANT show them.",
    "hdfs_parquet_import": "pyhudi import LOCATION FILES, or hudi.bootstrap(source, location, record_key=...).",
    "hive_sync": _NO_CATALOG,
    "partition_bucket_index_manager": "Tables whose partitions have their own numbers of buckets are not written.",
    "repair_add_partition_meta": _PARTITION_FILES,
    "repair_corrupted_clean_files": "A clean whose plan is damaged is named by pyhudi check, with what to remove.",
    "repair_deduplicate": "table.duplicates.run(), or pyhudi repair LOCATION --duplicates; in place, in one commit.",
    "repair_migrate_partition_meta": _PARTITION_FILES,
    "repair_overwrite_hoodie_props": "Each step writes its own properties; pyhudi check names wrong ones; pyhudi recover makes lost ones.",
    "run_bootstrap": "hudi.bootstrap(source, location, record_key=...), or pyhudi bootstrap.",
    "set_audit_lock": _AUDIT,
    "show_audit_lock_status": _AUDIT,
    "show_bootstrap_mapping": _BOOTSTRAP,
    "show_bootstrap_partitions": _BOOTSTRAP,
    "show_file_status": "pyhudi check LOCATION names files that no commit knows; CALL show_cleans_metadata(...) counts those that a clean deleted.",
    "show_invalid_parquet": "pyhudi check LOCATION reads every footer, and names what is damaged.",
    "show_logfile_metadata": _LOGS,
    "show_logfile_records": _LOGS,
    "show_metadata_column_stats_overlap": _RANGES,
    "sync_validate": _NO_CATALOG,
    "upgrade_table": _VERSIONS,
    "validate_audit_lock": _AUDIT,
}


def _help(call: ProcedureCall) -> Iterator[Row]:
    wanted = call.given["cmd"]
    for name in [wanted] if wanted else sorted(PROCEDURES):
        found = _named(name)
        yield {"result": found.described() if found.carry_out is not None else f"{name} is not here. {found.instead}"}


PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        *TIMELINE,
        *FILES,
        *SERVICES,
        here("help", "cmd", "result", _help),
        *(not_here(name, reason) for name, reason in _REFUSED.items()),
    )
}
"""All procedures by name."""


def call(words: Words, names: Names) -> pa.Table:
    """Run CALL [system.]name(argument => value, ...), and return the rows with Hudi's columns.

    Raises `InvalidOptionError` for an unknown procedure or an unknown argument, before anything is done.
    """
    found, asked = named_call(words, names)
    given = asked.given
    condition = Predicate.of(given["filter"], found.schema) if given.get("filter") else None
    limit = given.get("limit") if found.only_reads else None
    limit = None if limit is None or limit < 0 else limit
    assert found.carry_out is not None, "named_call refuses the others"
    rows = found.carry_out(asked)
    if condition is None:
        return pa.Table.from_pylist(list(islice(rows, limit)), found.schema)
    return matching(pa.Table.from_pylist(list(rows), found.schema), condition.expression).slice(0, limit)


def named_call(words: Words, names: Names) -> tuple[Procedure, ProcedureCall]:
    """Return the procedure that a statement calls, with the values of its arguments. Raises as `call`."""
    words.has("CALL")
    name = [part.lower() for part in words.name()]
    if len(name) > 1 and name[0] in ("system", "hoodie", "spark_catalog"):
        name = name[-1:]
    found = _named(".".join(name))
    if found.carry_out is None:
        raise InvalidOptionError(f"CALL {found.name} is not carried out here", hint=found.instead)
    given = _arguments(words, found)
    words.end()
    return found, ProcedureCall(names, given)


def render_procedures() -> str:
    """Return the table of all procedures for the documentation."""
    lines = ["| procedure | here | arguments, or the reason |", "|---|---|---|"]
    for name, found in sorted(PROCEDURES.items()):
        taken = ", ".join(f"`{one.name}`" for one in found.arguments)
        reason = found.instead.replace("|", "\\|")
        lines.append(f"| `{name}` | {'yes' if found.carry_out is not None else 'no'} | {taken or reason} |")
    return "\n".join(lines)


def _named(name: str) -> Procedure:
    found = PROCEDURES.get(name)
    if found is None:
        near = nearest(name, tuple(PROCEDURES))
        raise InvalidOptionError(
            f"There is no procedure {name!r}",
            hint=f"{f'Did you mean {near}? ' if near else ''}CALL help() shows them all. Nothing was changed.",
        )
    return found


def _arguments(words: Words, procedure: Procedure) -> dict[str, Any]:
    """Read the arguments in brackets. Arguments by position come first, then arguments by name."""
    if not words.has("("):
        raise words.expected("(")
    given: dict[str, Any] = {}
    known = {argument.name.lower(): argument for argument in procedure.arguments}
    while not words.has(")"):
        if given and not words.has(","):
            raise words.expected(", or )")
        argument = _argument(words, procedure, known, given)
        given[argument.name] = argument.checked(words.value())
    missing = [
        argument.name for argument in procedure.arguments if argument.required and given.get(argument.name) is None
    ]
    if missing:
        raise not_understood(
            f"CALL {procedure.name} lacks {', '.join(missing)}", f"Its arguments: {procedure.described()}"
        )
    return {argument.name: argument.default for argument in procedure.arguments} | given


def _argument(words: Words, procedure: Procedure, known: Mapping[str, Argument], given: Mapping[str, Any]) -> Argument:
    start = words.next
    following = words.tokens[start + 1].text if start + 1 < len(words.tokens) else ""
    if following == "=>":
        word = words.tokens[start].text
        words.next += 2
        argument = known.get(word.lower())
        if argument is None or argument.name in given:
            raise not_understood(
                f"CALL {procedure.name} has {'the argument ' + word + ' twice' if argument else f'no argument {word!r}'}",
                f"Its arguments: {procedure.described()}",
            )
        return argument
    place = len(given)
    if place >= len(procedure.arguments) or list(given) != [argument.name for argument in procedure.arguments[:place]]:
        raise words.expected("name => value, after those by position")
    return procedure.arguments[place]
