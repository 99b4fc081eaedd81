"""Objects that people print are one line that names them, and a small escaped table in a notebook, whatever texts a table holds."""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import importlib
import pickle
import re
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.tables import ORDERS, create_plain, make, orders

import pyhudi
from pyhudi_core.model.printing import LINE, printable
from pyhudi_core.savepoints.savepoint_files import Savepoint
from pyhudi_core.services.registry import SERVICES
from pyhudi_core.services.service import ServiceResult

ROOT = Path(pyhudi.__file__).parents[1] / "pyhudi_core"
OF_PEOPLE = ("conflicts", "doctor", "file_groups", "model", "read", "services", "snapshot", "timeline", "validators")
"""Packages whose classes people get from public calls. Storages, engines and the commit protocol are behind them."""
NUMBER = 12_980_421
SECRET = "hunter2hunter2"
HOSTILE = (
    f"<script>alert(\"1\")</script> 'quoted' &amp; \n\r\t\x1b[2J\x00 s3://user:{SECRET}@host/x password={SECRET} "
    + "a_long_word" * 500
    + f" {NUMBER}" * 500
)


def _surface() -> dict[str, str]:
    """The classes of what public calls return and public fields hold, and the module of each: found by the annotations."""
    found: dict[str, list[tuple[str, ast.ClassDef]]] = defaultdict(list)
    returned: dict[str, list[ast.expr | None]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append((module, node))
            elif isinstance(node, ast.FunctionDef):
                returned[node.name].append(node.returns)

    def named(of: ast.expr | None) -> set[str]:
        return set(re.findall(r"[A-Za-z]\w*", ast.unparse(of))) & set(found) if of is not None else set()

    public = set(pyhudi.__all__)
    todo = [name for name in public if name in found]
    todo += [kind for name in public for of in returned[name] for kind in named(of)]
    seen: dict[str, str] = {}
    while todo:
        name = todo.pop()
        homes = [
            module
            for module, _ in found[name]
            if module.split(".")[1] in OF_PEOPLE or (name in public and "testing" not in module)
        ]
        if name in seen or not homes:
            continue
        seen[name] = homes[0]
        for node in (node for module, node in found[name] if module in homes):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                    todo += named(part.returns)
                if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
                    todo += named(part.annotation)
    return seen


SURFACE = {name: getattr(importlib.import_module(module), name) for name, module in sorted(_surface().items())}
"""Every class of the public surface."""


def _is_shown(kind: type) -> bool:
    """Whether objects of this class are printed by people: no error, no word of an enumeration, and nothing that only says what others must have."""
    if issubclass(kind, BaseException | enum.Enum) or getattr(kind, "_is_protocol", False):
        return False
    return kind.__name__ not in BEHIND


BEHIND = {
    "NotCalled": "a base of services",
    "NamesInstead": "a base of tables",
    "TableServices": "a base of tables",
    "RecordMerger": "users write its classes",
    "ArchivedTimeline": "a part of a view of files",
    "HistoryState": "a part of a view of files",
    "RowFilter": "a part of a scan",
    "ChangeReader": "a part of a change feed",
    "FileNames": "a part of how a scan merges rows",
    "Touched": "a part of a write",
    "Version": "a part of how columns are numbered",
    "SideAndCommit": "a part of a write",
    "Usual": "the rule for a kind of finding",
}
"""Classes whose objects people do not get, with the reason."""
SHOWN = {name: kind for name, kind in SURFACE.items() if _is_shown(kind)}


@pytest.mark.parametrize("name", SHOWN)
def test_every_class_of_the_public_surface_prints_by_the_one_helper(name: str) -> None:
    kind = SHOWN[name]
    written = [one.__name__ for one in kind.__mro__ if "_repr_html_" in vars(one)]
    assert written, f"decorate {name} with @printable"
    assert kind._repr_html_.__module__ == printable.__module__, "the table is made by the helper alone"
    assert kind.__repr__.__module__ == printable.__module__, "so is the line"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name != "colspan"], attrs


def _assert_is_shown_well(thing: Any, name: str) -> None:
    line, table = repr(thing), thing._repr_html_()
    assert line.startswith(name), line
    assert len(line) <= LINE, line
    assert line.isprintable(), "no line break, no control character"
    assert " object at 0x" not in line, line
    parser = _Tags()
    parser.feed(table)
    assert parser.tags <= {"p", "table", "tr", "th", "td"}, parser.tags
    assert "<script" not in table
    for shown in (line, table):
        assert SECRET not in shown
        for number in re.findall(r"(?<![\w-])\d[\d,]*(?![\w-])", shown):  # the digits of an id are no number
            digits = number.replace(",", "")
            assert digits == str(NUMBER) or not str(NUMBER).startswith(digits) or len(digits) < 3, f"{number} is cut"


class _Odd:
    """What a field holds of which no type is known."""

    def __repr__(self) -> str:
        return HOSTILE

    __str__ = __repr__


def _made(hint: Any, depth: int = 0) -> Any:
    """A value of a type, of which each text is hostile."""
    plain: dict[Any, Callable[[], Any]] = {
        str: lambda: HOSTILE,
        int: lambda: NUMBER,
        float: lambda: 0.5,
        bool: lambda: True,
        bytes: HOSTILE.encode,
        pa.Schema: lambda: pa.schema([(HOSTILE, pa.string())]),
        pa.Table: lambda: pa.table({HOSTILE: [HOSTILE]}),
        types.NoneType: lambda: None,
    }
    if hint in plain:
        return plain[hint]()
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _made(parts[0], depth)
    if origin is tuple:
        return tuple(_made(part, depth) for part in parts if part is not ...)
    if origin in (list, set, frozenset) or (isinstance(origin, type) and origin.__name__ in ("Sequence", "Iterable")):
        return (origin if origin in (list, set, frozenset) else tuple)([_made(parts[0], depth)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_made(parts[0], depth): _made(parts[1], depth), "password": SECRET, "hoodie.table.version": "8"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    if dataclasses.is_dataclass(hint) and depth < 6:
        return _instance(typing.cast("type", hint), depth + 1)
    return _Odd()


def _instance(kind: type, depth: int = 0) -> Any:
    """An object of a dataclass, with hostile texts in every field."""
    thing = object.__new__(kind)
    hints = _hints(kind)
    for item in dataclasses.fields(kind):
        object.__setattr__(thing, item.name, _made(hints.get(item.name), depth))
    return thing


def _hints(kind: type) -> dict[str, Any]:
    known = {**vars(pyhudi), **SURFACE}
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, hint in vars(base).get("__annotations__", {}).items():
            home = getattr(hint, "__forward_module__", None) or base.__module__
            text = getattr(hint, "__forward_arg__", hint)
            scope = {**known, **vars(importlib.import_module(home))}
            try:
                found[name] = eval(text, scope) if isinstance(text, str) else hint
            except NameError:  # a name that the module imports for type checkers
                found[name] = None
    return found


def _all_results(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_results(below)


def test_every_kind_of_result_prints_by_the_one_helper() -> None:
    kinds = set(_all_results(ServiceResult))
    assert len(kinds) > 8
    for kind in kinds:
        assert kind.__repr__.__module__ == printable.__module__, kind
        assert kind._repr_html_.__module__ == printable.__module__, kind


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> pyhudi.HudiTable:
    """A table in a folder with a hostile name, with a commit, a savepoint and a hold with hostile comments."""
    table = make(str(tmp_path_factory.mktemp("a<script>alert('1')< b>\x1b[2Jc") / ("long" * 50)))
    made = table.upsert(orders((1, "<script>", 1.0), (2, "b", 2.0)), extra_metadata={"run": HOSTILE})
    table.savepoints.create(made.instant, HOSTILE)
    table.holds.create(seconds=3600, comment=HOSTILE)
    return table


def _candidate(table: pyhudi.HudiTable) -> pyhudi.Candidate:
    seen: list[pyhudi.Candidate] = []
    table.upsert(orders((4, "<script>", 1.0)), pre_commit=[seen.append], extra_metadata={"run": HOSTILE})
    return seen[0]


def _verdict(table: pyhudi.HudiTable) -> pyhudi.CommitVerdict:
    with table.begin() as write:
        write.write(orders((5, "<script>", 1.0)))
        return write.would_commit()


OBJECTS: dict[str, Callable[[pyhudi.HudiTable], Any]] = {
    "HudiTable": lambda table: table,
    "Scan": lambda table: table.scan(where="id > 0").limit(NUMBER),
    "ChangeFeed": lambda table: table.changes("0"),
    "Commit": lambda table: table.upsert(orders((3, "<script>", 1.0))),
    "CommitMetadata": lambda table: table.commit_metadata(table.timeline.commits[0]),
    "ConflictExplanation": lambda table: table.explain_conflict(*table.timeline.commits[:2]),
    "CommitHistory": lambda table: table.history(),
    "Timeline": lambda table: table.timeline,
    "Snapshot": lambda table: table.snapshot(),
    "FileGroupView": lambda table: table.snapshot().view,
    "FileSlice": lambda table: table.scan().slices()[0],
    "TableConfig": lambda table: table.config,
    "TableSize": lambda table: table.size(),
    "SnapshotToken": lambda table: table.snapshot_token(),
    "Explanation": lambda table: table.scan().explain(),
    "Staleness": lambda table: table.scan(mode="read_optimized").staleness(),
    "CheckReport": lambda table: table.check(),
    "Incident": lambda table: table.record_incident(),
    "UpkeepReport": lambda table: pyhudi.upkeep(table, plan=True),
    "Batch": lambda table: pyhudi.Consumer("c", table, _table()).next(),
    "Candidate": _candidate,
    "CommitVerdict": _verdict,
    "Write": lambda table: table.begin(),
    "Consumer": lambda table: pyhudi.Consumer(HOSTILE, table, _table()),
    "ServicesByName": lambda table: table.services,
    "Indexes": lambda table: table.indexes,
    "Savepoints": lambda table: table.savepoints,
    "Savepoint": lambda table: next(iter(table.savepoints)),
    "Holds": lambda table: table.holds,
    "Hold": lambda table: next(iter(table.holds)),
    "Rollbacks": lambda table: table.rollback,
    "RollbackPlan": lambda table: table.rollback.plan(table.timeline.commits[-1].requested_time),
    "RestorePlan": lambda table: table.restore.plan(table.timeline.commits[0].requested_time),
    "Erasure": lambda table: table.erasure,
    "ErasurePlan": lambda table: table.erasure.plan(orders((1, "<script>", 1.0)).select(["id", "day"])),
    "Duplicates": lambda table: table.duplicates,
    "DuplicatePlan": lambda table: table.duplicates.plan(),
    "MetadataTableOf": lambda table: table.metadata_table,
    "MetadataPlan": lambda table: table.metadata_table.plan(),
    **{kind.__name__: lambda table, name=kind.name: table.services[name] for kind in SERVICES},
}


VALUES = {name: kind for name, kind in SHOWN.items() if dataclasses.is_dataclass(kind) and name not in OBJECTS}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_with_hostile_texts_is_one_line_and_safe_in_a_notebook(name: str) -> None:
    _assert_is_shown_well(_instance(VALUES[name]), name)


FORGED = "x\n2026-01-01 ERROR\x1b[2J\u202e"


def test_names_of_files_and_texts_of_a_table_make_no_line_and_move_no_cursor_in_what_is_printed(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    made = table.upsert(orders((1, "a", 1.0)))
    hold = table.holds.create(seconds=3600)
    file = tmp_path / "t/.hoodie/.aux/.pyhudi/holds" / hold.name
    file.with_name(FORGED).write_bytes(file.read_bytes())
    file.with_name(f"{FORGED}2").write_bytes(b"x")
    (tmp_path / "t/day=a" / FORGED).write_bytes(b"x")
    named = Savepoint(made.instant, made.completion_time, FORGED, FORGED)
    report = table.check()
    assert {"hold_unreadable", "unknown_file"} <= {str(found.kind) for found in report.findings}
    printed = [table.holds, *table.holds, named, report, table.sweep.plan()]
    for shown in map(str, printed):
        assert all(line.isprintable() and not line.startswith("2026-01-01") for line in shown.split("\n")), shown
    assert any(f"Hold {FORGED[0]}" in str(shown) for shown in printed)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_of_a_hostile_table_is_one_line_and_safe_in_a_notebook(name: str, hostile: pyhudi.HudiTable) -> None:
    _assert_is_shown_well(OBJECTS[name](hostile), name)


def test_every_plan_of_a_hostile_table_is_one_line_and_safe_in_a_notebook(hostile: pyhudi.HudiTable) -> None:
    for service in hostile.services.values():
        plan = service.plan()
        _assert_is_shown_well(plan, type(plan).__name__)


def test_every_class_that_is_no_value_is_among_the_objects(hostile: pyhudi.HudiTable) -> None:
    tried = {kind for make_one in OBJECTS.values() for kind in type(make_one(hostile)).__mro__}
    assert sorted(name for name, kind in SHOWN.items() if name not in VALUES and kind not in tried) == []


def test_tokens_and_names_that_people_copy_are_complete(hostile: pyhudi.HudiTable) -> None:
    assert str(hostile.snapshot_token()) in repr(hostile.snapshot_token())
    hold = next(iter(hostile.holds))
    assert hold.name in repr(hold)
    assert hostile.timeline.commits[0].requested_time in repr(hostile.timeline.commits[0])


def test_an_object_of_a_table_that_is_gone_still_prints(tmp_path: Path) -> None:
    table = make(str(tmp_path / "t"))
    savepoints = table.savepoints
    (tmp_path / "t").rename(tmp_path / "u")
    assert repr(table).startswith("HudiTable that cannot be read")
    assert repr(savepoints).startswith("Savepoints")
    assert "<table>" not in savepoints._repr_html_()


def test_a_notebook_shows_the_properties_without_secrets() -> None:
    config = _instance(pyhudi.TableConfig)
    object.__setattr__(
        config, "raw", {"hoodie.table.name": "orders", "hoodie.jdbc.password": SECRET, "hoodie.table.version": "8"}
    )
    assert "<th>hoodie.table.name</th><td>orders</td>" in config._repr_html_()
    assert "<td>***</td>" in config._repr_html_()


def test_a_long_table_of_a_notebook_says_how_many_rows_are_left_out() -> None:
    instants = tuple(pyhudi.Instant(f"{n:017}", pyhudi.Action.COMMIT, pyhudi.State.REQUESTED) for n in range(1_241))
    shown = pyhudi.Timeline(instants)._repr_html_()
    assert "and 1,201 more" in shown
    assert shown.count("<tr>") == 42, "a header, 40 instants, and the rest"
    assert f"<td>{1_240:017}</td>" in shown, "the newest are shown"


GUESSES: dict[str, Callable[[Any], Any]] = {
    "len": len,
    "iteration": list,
    "a loop": lambda one: [row for row in one],  # noqa: C416
    "an index": lambda one: one[0],
    "a column": lambda one: one["id"],
    "a slice": lambda one: one[:5],
    "in": lambda one: 1 in one,
}
READS: dict[str, Callable[[pyhudi.HudiTable], Any]] = {
    "HudiTable": lambda table: table,
    "Scan": lambda table: table.scan(),
    "ChangeFeed": lambda table: table.changes("0"),
}


@pytest.mark.parametrize("guess", GUESSES)
@pytest.mark.parametrize("name", READS)
def test_what_people_try_on_a_read_names_what_to_call(name: str, guess: str) -> None:
    of = READS[name](_table())
    with pytest.raises(
        TypeError,
        match=rf"^{name} (has no length|cannot be iterated over|cannot be indexed|does not say what is in it): use ",
    ) as e:
        GUESSES[guess](of)
    _assert_names_a_call(str(e.value), of)


@pytest.mark.parametrize("guess", ["to_df", "df", "toPandas", "to_pylist", "to_dicts", "num_rows", "shape", "show", "first", "collect"])  # fmt: skip
@pytest.mark.parametrize("name", READS)
def test_a_name_that_people_guess_names_what_to_call(name: str, guess: str) -> None:
    of = READS[name](_table())
    with pytest.raises(AttributeError, match=f"{name} has no '{guess}': use ") as e:
        getattr(of, guess)
    _assert_names_a_call(str(e.value), of)


def _assert_names_a_call(said: str, of: Any) -> None:
    """What is named is there: ``table.x`` is of the table, ``.x`` of the object."""
    path = said.partition(": use ")[2]
    of_table = path.startswith("table.")
    call = re.findall(r"\.(\w+)", path)[0]
    assert hasattr(_table() if of_table else of, call), said


def test_every_answer_of_a_read_names_a_call_that_is_there() -> None:
    scan, table = _table().scan(), _table()
    for name, call in {**type(scan)._INSTEAD}.items():
        first = re.findall(r"(table)?\.(\w+)\(?", call)[0]
        assert hasattr(table if first[0] else scan, first[1]), (name, call)
        assert name.startswith("__") or not hasattr(scan, name), name


def _table() -> pyhudi.HudiTable:
    if "table" not in _KEPT:
        _KEPT["table"] = create_plain("memory://guesses", ORDERS, "id", "day")
        _KEPT["table"].upsert(orders((1, "a", 1.0)))
    return _KEPT["table"]


_KEPT: dict[str, pyhudi.HudiTable] = {}


def test_a_read_is_true_and_can_be_copied_and_pickled(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    for one in (table, table.scan(), table.changes("0")):
        assert one, "as before"
        assert copy.copy(one)
    assert pickle.loads(pickle.dumps(table.scan().tasks()[0]))


def test_an_argument_that_people_guess_names_the_one_of_a_read() -> None:
    with pytest.raises(TypeError, match="use columns="):
        _table().scan().narrowed(select=["id"], condition=None)  # type: ignore[call-arg]


def test_the_history_prints_as_lines_and_is_taken_as_arrow() -> None:
    table = pyhudi.create_table("memory://history-prints", ORDERS, record_key="id", partition_by="day")
    first = table.upsert(orders((1, "a", 1.0)), extra_metadata={"run": "7"})
    second = table.upsert(orders((1, "a", 2.0), (2, "a", 1.0)))
    found = table.history()
    head, *lines = str(found).splitlines()
    assert head.split() == ["instant", "operation", "rows_inserted", "rows_updated", "rows_deleted", "files_written", "writer"]  # fmt: skip
    assert [line.split()[:4] for line in lines] == [
        [second.instant, "UPSERT", "1", "1"],
        [first.instant, "UPSERT", "1", "0"],
    ]
    assert repr(found) == f"CommitHistory of 2 commits, newest UPSERT {second.instant}"
    assert isinstance(found.to_arrow(), pa.Table)
    assert pa.table(found).equals(found.to_arrow())
    assert (found.num_rows, len(found), found.column("rows_updated").to_pylist()) == (2, 2, [1, 0])
    assert found["instant"].to_pylist() == [second.instant, first.instant]
    assert (found[0]["instant"], found[-1]["instant"]) == (second.instant, first.instant)
    assert [row["extra_metadata"].get("run") for row in found] == [None, "7"]
    assert [row["instant"] for row in found[1:]] == [first.instant]
    assert copy.copy(found) == found
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(AttributeError, match="nothing_of_arrow"):
        _ = found.nothing_of_arrow


def test_a_word_of_sixty_letters_is_whole_and_a_longer_one_is_shortened() -> None:
    @printable
    class Said:
        def __init__(self, word: str) -> None:
            self.word = word

        def __str__(self) -> str:
            return self.word

    assert repr(Said("a" * 60)) == "Said: " + "a" * 60
    assert repr(Said("a" * 61)) != "Said: " + "a" * 61
    assert len(repr(Said("a" * 61))) <= 66


def test_the_newest_commit_is_in_the_line_of_a_history_and_the_state_in_the_table_of_a_scan(location: str) -> None:
    table = make(location)
    assert "its creation" in table.scan()._repr_html_()
    table.upsert(orders((1, "a", 1.0)))
    newest = table.delete(orders((1, "a", 1.0)).select(["id", "day"]))
    assert f"newest DELETE {newest.instant}".lower() in repr(table.history()).lower()
    assert newest.completion_time in table.scan()._repr_html_()
