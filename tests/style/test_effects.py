"""Effects are arguments: the core takes no clock, randomness, thread, process, disk or network of its own, by whatever way a name gets there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.sources import INSIDE, MODULES, ROOT, keep, name, names, text

CORE, ORCHESTRATORS = ROOT / "pyhudi_core", ("pyhudi_airflow", "pyhudi_dagster")

CHANCE = {"time", "uuid", "random", "secrets", "threading", "_thread", "multiprocessing", "concurrent", "asyncio", "sched", "signal", "subprocess",
          "timeit", "urandom", "greenlet"}  # fmt: skip
"""Modules, and names of modules, that bring a clock, randomness, threads or processes."""
PLACES = {"os", "posix", "pathlib", "tempfile", "shutil", "glob", "fcntl", "mmap", "sqlite3", "socket", "select", "selectors", "ssl", "http", "urllib",
          "requests", "boto3", "obstore", "botocore", "psutil", "resource", "platform", "getpass", "runpy", "ctypes"}  # fmt: skip
"""The same for disk, network and the machine."""
CLOCKS = {"now", "utcnow", "today", "current_timestamp", "current_date", "localtimestamp", "rand", "randn"}
"""Functions of other libraries (datetime, pandas, Spark) that read a clock or make random values."""
WORDS = {"now", "today", "random"}
"""The same as texts, for example ``numpy.datetime64("now")`` and ``pyarrow.compute.call_function("random", ...)``."""
LIBRARIES = ("numpy", "pandas", "pyarrow", "polars", "pyspark")
OTHERS = {"sys.modules", "io.open", "io.FileIO", "pyarrow.fs", "pyarrow.OSFile", "pyarrow.memory_map", "numpy.memmap", "numpy.fromfile", "numpy.load",
          "numpy.save"}  # fmt: skip
BUILTINS = {"open", "input", "print", "exec", "eval", "breakpoint", "__builtins__"}
HARMLESS = {"datetime.time"}
GIVEN = {"SerialExecutor", "HeldSettings", "Settings", "collector_paused"}
"""Names of ``runtime/`` beside its protocols that touch nothing outside."""

_DOOR = "a door: it makes the runtime of the tables that a caller opens"
_IN_AIRFLOW = "a triggerer has a loop, and a worker hands in no clock"
_IN_DAGSTER = "Dagster's processes hand in no clock and no threads"
ALLOWED = {
    ("pyhudi_airflow/hook.py", "asyncio"): _IN_AIRFLOW,
    ("pyhudi_airflow/sensors.py", "asyncio"): _IN_AIRFLOW,
    ("pyhudi_airflow/service_operators.py", "datetime.datetime.now"): _IN_AIRFLOW,
    ("pyhudi_airflow/triggers.py", "asyncio"): _IN_AIRFLOW,
    ("pyhudi_core/lazy.py", "sys.modules"): "it puts imported names into a package",
    (
        "pyhudi_core/catalog/glue.py",
        "botocore",
    ): "the errors and time-outs of the client of a catalog, which is asked and nothing else",
    ("pyhudi_core/cli/help.py", "pathlib.Path"): "the pages are files of the package itself",
    ("pyhudi_core/engine/spark_classic.py", "os"): "workers run this interpreter: an environment variable of Spark",
    ("pyhudi_core/engine/choice.py", "sys.modules"): "a delete asks whether the process has a Spark session",
    (
        "pyhudi_core/formats/base_file/orc.py",
        "pyhudi_core.runtime.isolated.orc_stripes",
    ): "the decoder of ORC may crash its process",
    (
        "pyhudi_core/formats/base_file/parquet_groups.py",
        "pyhudi_core.runtime.system.page_bytes",
    ): "a limit of the process: readers of files take no options",
    (
        "pyhudi_core/predicates/opaque.py",
        "pyarrow.fs",
    ): "a data set without files needs a file system, which nothing calls",
    (
        "pyhudi_core/spark/writer.py",
        "pyhudi_core.runtime.system.RandomIds",
    ): "Spark makes the writer, and hands in nothing",
    (
        "pyhudi_core/write/handles/base.py",
        "pyhudi_core.runtime.system.RandomIds",
    ): "a task may run on a worker of Spark",
    (
        "pyhudi_core/write/handles/base.py",
        "pyhudi_core.runtime.system.SystemClock",
    ): "a task may run on a worker of Spark",
    (
        "pyhudi_core/engine/spark_executors.py",
        "pyhudi_core.runtime.worker_facts.worker_facts",
    ): "it runs in workers of Spark",
    ("pyhudi_core/spark/shipping.py", "pyhudi_core.runtime.own_package.zipped_package"): "PySpark sends files only",
    ("pyhudi_core/importing/bootstrap.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/cli/make.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/upkeep_run.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/lake_tables.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/opening.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/importing/recovery.py", "pyhudi_core.runtime.system.system_runtime"): _DOOR,
    ("pyhudi_core/orchestration/remote_write.py", "pyhudi_core.runtime.system_runtime"): _DOOR,
    ("pyhudi_core/orchestration/table_looks.py", "pyhudi_core.runtime.system_runtime"): _DOOR,
    ("pyhudi_core/orchestration/partition_values.py", "urllib.parse.unquote"): "it decodes the names of folders",
    ("pyhudi_dagster/assets/asset_function.py", "asyncio"): "it runs the functions of users that are async",
    ("pyhudi_dagster/reporting/checks.py", "datetime.datetime.now"): _IN_DAGSTER,
    ("pyhudi_dagster/command/diagnosis.py", "signal"): "it says who handles the signal of a terminated run",
    ("pyhudi_dagster/lake/interrupts.py", "threading"): _IN_DAGSTER,
    ("pyhudi_dagster/lake/interrupts.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/lake/interrupts.py", "uuid"): _IN_DAGSTER,
    ("pyhudi_dagster/steps/pipes.py", "threading"): _IN_DAGSTER,
    ("pyhudi_dagster/steps/pipes.py", "uuid"): _IN_DAGSTER,
    ("pyhudi_dagster/lake/resource.py", "threading"): _IN_DAGSTER,
    ("pyhudi_dagster/steps/runner.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/services/service_runs.py", "datetime.datetime.now"): _IN_DAGSTER,
    ("pyhudi_dagster/services/service_runs.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/services/service_schedules.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/services/service_sensor.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/services/ticks.py", "datetime.datetime.now"): _IN_DAGSTER,
    ("pyhudi_dagster/lake/spark_session.py", "subprocess"): "the session runs in a child process",
    ("pyhudi_dagster/lake/spark_session.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/observation/timeline_sensor.py", "time"): _IN_DAGSTER,
    ("pyhudi_dagster/steps/writer.py", "time"): _IN_DAGSTER,
}
"""By file and name (all that is below the name is allowed, too): why."""
HIDDEN = {
    "pyhudi/__init__.py": "its own three submodules",
    "pyhudi_core/lazy.py": "it is what imports late",
    "pyhudi_core/runtime/worker_facts.py": "pyarrow and this package, in a worker",
    "pyhudi_core/lock/kinds.py": "the modules of a folder beside it",
    "pyhudi_core/cli/main.py": "the modules of commands, all of them beside it",
    "pyhudi_dagster/command/project.py": "the module of a user's definitions",
}
"""By file: why it imports modules whose names are no texts in it."""


def _real() -> set[str]:
    """The public names of ``runtime/`` that are no protocol and that reach outside."""
    made = {
        node.name
        for path in (CORE / "runtime").glob("*.py")
        if path.name != "base.py"
        for node in ast.parse(text(path)).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    }
    return made - GIVEN


REAL = _real()


OWN = {name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in MODULES}
REAL_NAMES = {part for part in REAL if part[0].isupper() or part == "system_runtime"}
"""Those that are like no other name: a module may have imported them, and others take them from there."""


def _reaches(dotted: str, outside: set[str]) -> bool:
    """Whether a name is one of the outside, or of a real part that ``runtime/`` makes of it."""
    parts = dotted.split(".")
    size = next((size for size in range(len(parts), 0, -1) if ".".join(parts[:size]) in OWN), 0)
    beyond = set(parts[size:])  # the name of a module of the project says nothing
    if size:
        return bool(beyond & (outside | (REAL if parts[:2] == ["pyhudi_core", "runtime"] else REAL_NAMES)))
    return bool(beyond & outside) or parts[-1] in CLOCKS


def _effects(path: Path, outside: set[str], others: set[str]) -> Iterator[str]:
    known = names(path)
    found = {
        used: line for used, line in known.used.items()
        if not _is_in(used, HARMLESS) and (_reaches(used, outside) or _is_in(used, others)) and not _is_allowed(path, used)
    }  # fmt: skip
    shortest = {used: line for used, line in found.items() if not any(used.startswith(f"{other}.") for other in found)}
    yield from (f"line {line}: {used}" for used, line in sorted(shortest.items()))
    for node in known.nodes:
        if isinstance(node, ast.Call) and (known.dotted(node.func) or "").startswith(LIBRARIES):
            words = {word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)}
            yield from (f"line {node.lineno}: {ast.unparse(node)}" for _ in words & WORDS)


def _is_in(dotted: str, listed: set[str] | Mapping[str, object]) -> bool:
    return any(dotted == one or dotted.startswith(f"{one}.") for one in listed)


def _is_allowed(path: Path, dotted: str) -> bool:
    return path.is_relative_to(ROOT) and any(file == name(path) and _is_in(dotted, {one}) for file, one in ALLOWED)


def core_effects(path: Path) -> list[str]:
    """What a module of the core takes from outside."""
    nodes = names(path).nodes
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    calls = {
        node.id: node.lineno for node in reversed(nodes) if isinstance(node, ast.Name) and node.id in BUILTINS - bound
    }
    built_in = [f"line {line}: {word}()" for word, line in sorted(calls.items())]
    return [*_effects(path, CHANCE | PLACES, OTHERS | {f"builtins.{word}" for word in BUILTINS}), *built_in]


def orchestrator_effects(path: Path) -> list[str]:
    """What a module for Airflow or Dagster takes of clocks, randomness, threads and processes."""
    return list(_effects(path, CHANCE, set()))


def hidden_imports(path: Path) -> list[str]:
    """Imports whose module no rule can see."""
    if path.is_relative_to(ROOT) and name(path) in HIDDEN:
        return []
    return [f"line {line}: imports a module that is not named by a text" for line in sorted(names(path).hidden)]


def test_the_core_takes_the_outside_only_as_an_argument() -> None:
    keep(
        core_effects,
        INSIDE,
        "Take the storage, clock, ids, executor or timer as an argument (`runtime` of the table, `pyhudi_core/runtime/base.py`).",
    )


def test_clocks_and_threads_of_the_orchestrators_are_in_known_modules() -> None:
    paths = [path for path in MODULES if name(path).startswith(ORCHESTRATORS)]
    keep(
        orchestrator_effects,
        paths,
        "Use a module that does this already, or add the name to ALLOWED of tests/style/test_effects.py with its reason.",
    )


def test_each_late_import_names_its_module() -> None:
    keep(
        hidden_imports,
        MODULES,
        'Write the name as a text, `lazy("pyhudi_core.module")`: the linter of layers cannot follow it otherwise.',
    )


def test_what_is_allowed_is_needed() -> None:
    unused = [(file, one) for file, one in ALLOWED if not any(_is_in(used, {one}) for used in names(ROOT / file).used)]
    unused += [(file, "hidden import") for file in HIDDEN if not names(ROOT / file).hidden]
    assert unused == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import time\ntime.sleep(1)", "time"),
        ("import time as t", "time"),
        ("from time import time", "time.time"),
        ("from threading import Lock", "threading.Lock"),
        ("import concurrent.futures", "concurrent.futures"),
        ("from concurrent import futures", "concurrent.futures"),
        ("import os", "os"),
        ("from os import urandom", "os.urandom"),
        ("def f():\n    import uuid", "uuid"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as D\ndef f(at=D.utcnow()): ...", "datetime.datetime.utcnow"),
        ("import datetime as dt\nnow = dt.datetime.now", "datetime.datetime.now"),
        ("import datetime as dt\nday = dt.date\nday.today()", "datetime.date.today"),
        ("import pandas as pd\npd.Timestamp.now()", "pandas.Timestamp.now"),
        ("import numpy as np\nnp.datetime64('now')", "np.datetime64('now')"),
        ("import pandas as pd\npd.Timestamp('today')", "pd.Timestamp('today')"),
        ("import numpy as np\nnp.random.default_rng()", "numpy.random"),
        ("from numpy.random import default_rng", "numpy.random.default_rng"),
        ("import pyarrow.compute as pc\npc.random(3)", "pyarrow.compute.random"),
        ("import pyarrow.compute as pc\npc.call_function('random', [])", "pc.call_function('random', [])"),
        ("import pyarrow.compute as pc\ngetattr(pc, 'random')(3)", "pyarrow.compute.random"),
        ("from pyspark.sql import functions as F\nF.rand()", "pyspark.sql.functions.rand"),
        ("from pyhudi_core.runtime.system import SystemClock", "pyhudi_core.runtime.system.SystemClock"),
        ("from pyhudi_core.runtime import ThreadExecutor", "pyhudi_core.runtime.ThreadExecutor"),
        ("import pyhudi_core.runtime as r\ndef f(clock=r.SystemClock()): ...", "pyhudi_core.runtime.SystemClock"),
        ("from pyhudi_core import runtime\nruntime.system_runtime()", "pyhudi_core.runtime.system_runtime"),
        ("from pyhudi_core.opening import system_runtime", "pyhudi_core.opening.system_runtime"),
        ("from pyhudi_core.runtime.system import uuid", "pyhudi_core.runtime.system.uuid"),
        ("from pyhudi_core.lock import server\nserver.time.sleep(1)", "pyhudi_core.lock.server.time"),
        ("from pyhudi_core.lazy import lazy\nlazy('time')", "time"),
        ("from pyhudi_core.lazy import lazy as soon\nlabels, t = soon('json'), soon('time')\nt.sleep(1)", "time"),
        ("from pyhudi_core.lazy import lazy_in\nsystem, = lazy_in('pyhudi_core.runtime', 'system')\nsystem.SystemClock()", "pyhudi_core.runtime.system.SystemClock"),
        ("from pyhudi_core.lazy import lazy_call\nnew = lazy_call('uuid', 'uuid4')", "uuid.uuid4"),
        ("from pyhudi_core.lazy import lazy_call\nruntime = lazy_call('pyhudi_core.runtime.system', 'system_runtime')", "pyhudi_core.runtime.system.system_runtime"),
        ("import importlib\nimportlib.import_module('threading')", "threading"),
        ("from importlib import import_module as load\nload('threading').Thread()", "threading"),
        ("__import__('time').sleep(1)", "time"),
        ("import sys\nsys.modules['time'].sleep(1)", "sys.modules"),
        ("if (t := __import__('time')): t.sleep(1)", "time"),
        ("import builtins\nbuiltins.open('x')", "builtins.open"),
        ("import io\nio.open('x')", "io.open"),
        ("import pyarrow as pa\npa.OSFile('x')", "pyarrow.OSFile"),
        ("open('x')", "open()"),
        ("read = open", "open()"),
    ],
)  # fmt: skip
def test_the_rule_finds_each_way_to_the_outside(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert [line.partition(": ")[2] for line in core_effects(tmp_path / "module.py")] == [said]


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import time\ntime(8)",
        "from datetime import datetime\ndatetime.fromtimestamp(1)",
        "from pyhudi_core.conflicts.concurrent import since",
        "from pyhudi_core.runtime.base import Clock\ndef f(clock: Clock): clock.now_ms()",
        "from pyhudi_core.runtime.system import SerialExecutor\nSerialExecutor()",
        "def f(context): context.now()",
        "def f(open): open()",
        "from pyhudi_core.lazy import lazy\npc = lazy('pyarrow.compute')\npc.add(1, 2)",
    ],
)
def test_what_is_no_effect_is_allowed(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert core_effects(tmp_path / "module.py") == []


@pytest.mark.parametrize(
    "source",
    [
        "from pyhudi_core.lazy import lazy\nname = 'time'\nlazy(name)",
        "from pyhudi_core.lazy import lazy\nsoon = [lazy]",
        "from pyhudi_core.lazy import lazy_names\n__getattr__ = lazy_names('pyhudi_core.services', {'registry': 'registry'})",
        "import importlib\nimportlib.import_module(f'pyhudi_core.{1}')",
        "import importlib\nimportlib.import_module('.auto', 'pyhudi_core.services')",
        "import importlib\nload = getattr(importlib, 'import_module')\nload('ti' + 'me')",
        "__import__('ti' + 'me')",
        "from pyhudi_core.table import lazy\nlazy(str())",
    ],
)
def test_an_import_that_cannot_be_followed_is_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert len(hidden_imports(tmp_path / "module.py")) >= 1
