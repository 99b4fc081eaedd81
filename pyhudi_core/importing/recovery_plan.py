"""Recovery: rebuild the timeline and the properties of a table without ``.hoodie``, from the names and footers of its data files.

`plan_recovery` reads names, footers, one batch of rows and the record keys; it changes nothing. Facts that the files do not show are questions
(``recovery_questions.py``): the key columns, the ordering columns, the type of a table without logs, partition columns that are not in the names of
the folders, which of several files is meant, and whether columns that differ between files are found by name (``recovered_columns.py``). Some facts
are in no file, so no answer could be checked. They are listed (`unknown`), and must be accepted: which writes had not completed, and which file
groups were replaced.

For every requested time in the names, `recover` writes an instant that completed one millisecond later; then it writes the properties. Without the
properties, no program sees a table. The plan determines all bytes, so after a crash the recovery can be repeated with the same files; a timeline with
other files is refused.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyhudi_core.errors import CorruptionError, InvalidOptionError, TableExistsError
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.file_groups.unnamed_files import RECOVERED_KEY
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.formats.base_file.footer import AVRO_SCHEMA
from pyhudi_core.formats.log.blocks import Header, LogBlock
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.importing.recovered_columns import column_questions
from pyhudi_core.importing.recovery_questions import Answers, Questions, RecoveredFile, newest_bases, without_meta
from pyhudi_core.model.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi_core.model.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.model.operation import OperationType
from pyhudi_core.model.printing import printable
from pyhudi_core.model.properties import TableConfig, TableType
from pyhudi_core.model.schema import from_avro, to_avro
from pyhudi_core.naming import set_module
from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage.base import ObjectInfo, Storage
from pyhudi_core.storage.no_table import no_table
from pyhudi_core.timeline import properties_file
from pyhudi_core.transaction.publication import create_once

_TIMELINE = ".hoodie/timeline"
_UNFINISHED = "writes that had not completed: all files in the folders count as committed"
_REPLACED = "file groups that were replaced (overwritten, clustered, dropped partitions) and not cleaned yet: they count as living"
_COMPACTED = "whether the older log files of {} file groups are merged in their newest base file: they count as merged"


@set_module("pyhudi")
@dataclass(frozen=True, slots=True)
@printable
class RecoveryPlan:
    """The table that `recover` would rebuild; false if questions are open.

    Attributes:
        files: the files by requested time, in the order of time.
        config: the properties, if everything for them is known.
        questions: what must be answered, or excluded, before the table can be recovered.
        unknown: facts that neither the files nor an answer shows.
        left_out: files that the answers exclude, with the reason, by path. They are not changed.
    """

    files: Mapping[str, tuple[RecoveredFile, ...]] = field(default_factory=dict)
    config: TableConfig | None = None
    questions: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def instants(self) -> tuple[str, ...]:
        """The requested times of the commits that would be on the timeline."""
        return tuple(self.files)

    def __bool__(self) -> bool:
        return self.config is not None and not self.questions

    def __str__(self) -> str:
        count = sum(map(len, self.files.values()))
        lines = [f"{len(self.files)} commits with {count} data files can be rebuilt"]
        lines += [f"Left out: {path}: {why}" for path, why in self.left_out.items()]
        lines += [f"Not known: {text}" for text in self.unknown]
        return "\n".join([*lines, *(f"Question: {text}" for text in self.questions)])


def plan_recovery(storage: Storage, executor: Executor, answers: Answers) -> RecoveryPlan:
    """Return what can be rebuilt from the files of a folder.

    Raises `TableExistsError` if there are properties, `InvalidOptionError` if ``leave_out`` names a missing file, and errors of the storage: a file
    that cannot be read now may belong to the table.
    """
    _refuse_existing(storage)
    listing = StorageListing(storage, True, executor)
    partitions = listing.partitions() or ("",)
    listing.prepare(partitions)
    found, left_out, unreadable = _read(storage, executor, {path: listing.files(path) for path in partitions}, answers)
    if not found:
        question = f"the folder has no data files of Hudi: is it the right one? {no_table(storage).hint}"
        return RecoveryPlan(questions=(*unreadable, question), left_out=left_out)
    by_time: dict[str, list[RecoveredFile]] = defaultdict(list)
    for file in found:
        by_time[file.name.requested_time].append(file)
    ordered = {time: tuple(sorted(by_time[time], key=lambda file: file.path)) for time in sorted(by_time)}
    questions, config = Questions(storage, executor, answers, found, partitions).run()
    fixed = {*answers.record_key, *(answers.ordering or ()), *(config.partition_fields if config else ())}
    of_columns, unseen = column_questions(found, fixed, by_name=answers.by_name)
    plan = RecoveryPlan(ordered, config, (*questions, *of_columns, *unreadable), (*_unknown(found), *unseen), left_out)
    if config is not None:
        _refuse_foreign(storage, plan)
    return plan


def recover(storage: Storage, plan: RecoveryPlan) -> None:
    """Write the timeline and the properties of a plan without questions. Several processes may do this, and repeat it."""
    if not plan or plan.config is None:
        raise InvalidOptionError(
            f"The table cannot be recovered yet: {'; '.join(plan.questions)}",
            table=storage.location,
            hint="Nothing was changed. Answer the questions.",
        )
    for name, body in _timeline_files(plan).items():
        if not create_once(storage, f"{_TIMELINE}/{name}", body):
            raise TableExistsError(
                "The timeline has another file of this name than a recovery writes",
                table=storage.location,
                path=f"{_TIMELINE}/{name}",
                hint="Move .hoodie away and begin again.",
            )
    properties_file.create(storage, plan.config.to_properties(), f"recovered by pyhudi up to {max(plan.files)}")


def _refuse_existing(storage: Storage) -> None:
    for path in (properties_file.PATH, properties_file.BACKUP):
        if storage.head(path) is not None:
            raise TableExistsError(
                "The table has its properties, so there is nothing to recover from names",
                table=storage.location,
                path=path,
                hint="`pyhudi check` says what is wrong with it.",
            )


def _refuse_foreign(storage: Storage, plan: RecoveryPlan) -> None:
    """Raise `TableExistsError` if the timeline has files that this recovery would not write."""
    there = {info.path.rpartition("/")[2] for info in storage.list_folder(_TIMELINE).objects}
    foreign = sorted(there - {name for time in plan.files for name in _names(plan, time)})
    if foreign:
        raise TableExistsError(
            f"{len(foreign)} files of the timeline are still there, and a recovery from names would contradict them",
            table=storage.location,
            path=f"{_TIMELINE}/{foreign[0]}",
            hint="Restore hoodie.properties from a copy, or move .hoodie away to recover from names alone.",
        )


def _read(
    storage: Storage, executor: Executor, folders: Mapping[str, Sequence[ObjectInfo]], answers: Answers
) -> tuple[list[RecoveredFile], dict[str, str], list[str]]:
    """Return the data files with their footers, the excluded files, and a question for each damaged file."""
    left_out: dict[str, str] = {}
    named: set[str] = set()
    wanted: list[tuple[str, BaseFileName | LogFileName, ObjectInfo]] = []
    for partition, infos in folders.items():
        for info in infos:
            name = parse_data_file(info.path.rpartition("/")[2])
            if name is None or (isinstance(name, LogFileName) and name.is_cdc):
                continue
            meant = answers.leave_out & {name.requested_time, name.file_id, info.path}
            if meant:
                named |= meant
                left_out[info.path] = "as you said"
                continue
            wanted.append((partition, name, info))
    if named < answers.leave_out:
        raise InvalidOptionError(
            f"leave_out names nothing that is there: {', '.join(sorted(answers.leave_out - named))}",
            table=storage.location,
            hint="Name requested times, file ids, or paths of data files below the table. Nothing was changed.",
        )
    read = executor.map(partial(_file, storage), wanted)
    found: list[RecoveredFile] = []
    unreadable: list[str] = []
    for (_, _, info), file in zip(wanted, read, strict=True):
        if isinstance(file, RecoveredFile):
            found.append(file)
        else:
            unreadable.append(f"{info.path} is damaged ({file}): does the table go without it? (leave_out it)")
    return found, left_out, unreadable


def _file(storage: Storage, item: tuple[str, BaseFileName | LogFileName, ObjectInfo]) -> RecoveredFile | str:
    """Return a file with the facts in its footer or its first block; or a text about the damage."""
    partition, name, info = item
    try:
        with storage.open_input(info.path) as source:
            if isinstance(name, LogFileName):
                return _log(partition, name, info, LogReader(source, info.path).blocks())
            reader = BaseFileReader(source, info.path)
            footer = reader.footer()
            text = footer.key_value.get(AVRO_SCHEMA) or to_avro(without_meta(footer.schema), "recovered")
            return RecoveredFile(partition, name, info.size, footer.rows, text)
    except CorruptionError as error:
        return error.message


def _log(partition: str, name: LogFileName, info: ObjectInfo, blocks: Iterable[LogBlock]) -> RecoveredFile:
    part: str | None = None
    for block in blocks:
        text = block.headers.get(Header.SCHEMA)
        if text and not block.is_partial:
            return RecoveredFile(partition, name, info.size, 0, text)
        part = part or text
    return RecoveredFile(partition, name, info.size, 0, part, is_partial=part is not None)


def _unknown(found: Sequence[RecoveredFile]) -> tuple[str, ...]:
    newest = newest_bases(found)
    older = {
        file.group
        for file in found
        if isinstance(file.name, LogFileName)
        and file.group in newest
        and file.name.requested_time < newest[file.group].name.requested_time
    }
    return (_UNFINISHED, _REPLACED, *([_COMPACTED.format(len(older))] if older else []))


def _names(plan: RecoveryPlan, time: str) -> tuple[str, str, str]:
    requested, inflight, completed = _instants(plan, time)
    return requested.file_name(), inflight.file_name(), completed.file_name()


def _instants(plan: RecoveryPlan, time: str) -> tuple[Instant, Instant, Instant]:
    logs = plan.config is not None and plan.config.table_type is TableType.MERGE_ON_READ
    action = Action.DELTACOMMIT if logs else Action.COMMIT
    return (
        Instant(time, action, State.REQUESTED),
        Instant(time, action, State.INFLIGHT),
        Instant(time, action, State.COMPLETED, time_after(time)),
    )


def _timeline_files(plan: RecoveryPlan) -> dict[str, bytes]:
    """Return the content of every timeline file, in the order in which they are written."""
    assert plan.config is not None
    bodies: dict[str, bytes] = {}
    schema = plan.config.create_schema or ""
    for time, files in plan.files.items():
        marker = hashlib.md5(time.encode(), usedforsecurity=False).digest()
        texts = [without_meta(from_avro(file.schema)) for file in files if file.schema and not file.is_partial]
        schema = to_avro(max(texts, key=len), plan.config.name) if texts else schema
        commit = CommitMetadata(
            str(OperationType.UNKNOWN),
            tuple(map(_stat, files)),
            {SCHEMA_KEY: schema, RECOVERED_KEY: "names and footers"},
        )
        requested, inflight, completed = _instants(plan, time)
        operation = {"partitionToWriteStats": {}, "operationType": str(OperationType.UNKNOWN)}
        bodies[requested.file_name()] = b""
        bodies[inflight.file_name()] = encode_record("HoodieCommitMetadata", operation, sync_marker=marker)
        record = commit.to_avro(completed.action)
        bodies[completed.file_name()] = encode_record(commit.record_name(completed.action), record, sync_marker=marker)
    return bodies


def _stat(file: RecoveredFile) -> WriteStat:
    return WriteStat(file.name.file_id, file.path, file.partition, rows=file.rows, size=file.size)
