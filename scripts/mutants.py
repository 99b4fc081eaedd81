"""Make small changes to the code (mutants), and see whether a test notices them. cosmic-ray makes the changes and runs the tests.

    python scripts/mutants.py                                 a sample of 400 over all packages (`make evidence PARTS=mutants`)
    python scripts/mutants.py --only lock/storage --size 20   a sample of the modules with this text in their path
    python scripts/mutants.py --minutes 55                    stop after that; the next run goes on

Each process has a session of cosmic-ray in .cache/mutants, which `cosmic-ray dump` and `cr-html` read. Its test command (mutant_reach.py) runs the
quick tests that call the changed function; with --only those of the packages alone. A survivor that does the same as the code is in
equivalent_mutants.jsonl with the reason. The sample has the candidates with the smallest seeded hashes, and some of each package: it stays the same
where the code does.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkItem

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.recording import record  # noqa: E402

HOME = ROOT / ".cache" / "mutants"
GOAL = 0.95
ROOMS = {
    f"pyhudi_core/{path.name}": f"tests/unit/{path.name}"
    for path in sorted((ROOT / "pyhudi_core").iterdir())
    if (ROOT / "tests" / "unit" / path.name).is_dir() and (path / "__init__.py").exists()
} | {
    "pyhudi_core/opened_table": "tests/unit/write tests/unit/storage tests/unit/transaction",
    "pyhudi_core/spark": "tests/unit/test_stream_batches.py tests/unit/test_stream_sink.py tests/unit/test_change_logs.py",
    "pyhudi_dagster": "tests/dagster",
    "pyhudi_core": "tests/unit/transactions tests/unit/test_consuming.py tests/unit/test_table_operations.py tests/unit/test_table_write_handle.py "
    "tests/unit/test_public_names.py tests/unit/test_update.py tests/unit/test_upkeep.py tests/unit/test_source_transactions.py "
    "tests/unit/test_printed_objects.py",
}
"""The tests of each package; the last one has the modules that are in no other."""
TOPS = tuple(dict.fromkeys(room.partition("/")[0] for room in ROOMS))
LEAST = 8
"""So many mutants of each package are in a sample of all."""
ALL_TESTS = "tests/unit tests/dagster tests/golden tests/hostile tests/reliability"
_KINDS = {
    "ReplaceComparisonOperator_": "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Is_IsNot IsNot_Is",
    "ReplaceBinaryOperator_": "Add_Sub Sub_Add Mul_Add Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitAnd_BitOr BitOr_BitAnd BitXor_BitOr "
    "LShift_RShift RShift_LShift",
    "ReplaceUnaryOperator_": "USub_UAdd Delete_Not",
    "Replace": "TrueWithFalse FalseWithTrue AndWithOr OrWithAnd BreakWithContinue ContinueWithBreak",
    "": "AddNot ExceptionReplacer NumberReplacer RemoveDecorator ZeroIterationForLoop",
}
OPERATORS = tuple(kind + name for kind, names in _KINDS.items() for name in names.split())
"""One or two replacements of each operator of the language, so that the sample is not mostly arithmetic."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mutant: what cosmic-ray does to the module, the first line of the place, and a key that does not depend on line numbers."""

    key: str
    spec: MutationSpec
    text: str


def candidates(code: str, module: str) -> Iterator[Candidate]:
    """Every mutant of a module, but those that cannot show: in annotations, decorators of classes, ``__all__`` and below TYPE_CHECKING."""
    lines, silent, nodes = code.splitlines(), list(_silent(ast.parse(code))), list(ast_nodes(get_ast(code)))
    marks = [node for node in nodes if node.type == "operator" and node.value in {"*", "**"}]
    stars = {node.start_pos for node in marks if node.parent.type not in {"term", "power"}}  # they do not multiply
    seen: Counter[str] = Counter()
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            text = lines[start[0] - 1].strip()
            about = f"{module}|{name}|{text}"
            seen[about] += 1
            dotted = name == "ExceptionReplacer" and "." in lines[start[0] - 1][start[1] : end[1]]  # it fails there
            if start not in stars and not dotted and not any(first <= start < last for first, last in silent):
                key = hashlib.sha256(f"{about}|{seen[about]}".encode()).hexdigest()[:10]
                yield Candidate(key, MutationSpec(module, f"core/{name}", occurrence, start, end), text)


def _silent(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The ranges in which a change has no effect, as lines and columns."""
    for node in ast.walk(tree):
        found: list[ast.expr | ast.stmt] = []
        match node:
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                found = [node.annotation]
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.returns is not None:
                found = [node.returns]
            case ast.ClassDef():
                found = [item for item in node.decorator_list if isinstance(item, ast.Call)]
            case ast.Call():
                found = [word.value for word in node.keywords if word.arg == "strict"]
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                found = [node]
            case ast.Assign() if any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets):
                found = [node]
        for each in found:
            yield (each.lineno, each.col_offset), (each.end_lineno or each.lineno, each.end_col_offset or 0)


def room_of(module: str) -> str:
    """The package of a module that has tests of its own."""
    return next(room for room in ROOMS if module.startswith(room + "/"))


def sample(found: Iterable[Candidate], size: int, seed: int, least: int = 0) -> list[Candidate]:
    """As many of the candidates, in the order of their seeded hashes; of each room at least so many, if it has them."""
    ordered = sorted(found, key=lambda each: hashlib.sha256(f"{seed}|{each.key}".encode()).digest())
    counts, first, others = Counter[str](), list[Candidate](), list[Candidate]()
    for each in ordered:
        room = room_of(str(each.spec.module_path)) if least else ""
        counts[room] += 1
        (first if counts[room] <= least else others).append(each)
    chosen = {each.key for each in (*first, *others)[: max(size, len(first))]}
    return [each for each in ordered if each.key in chosen]


def equivalents() -> dict[tuple[str, str, str], str]:
    """Why a change of a line does the same, by module, line, and the changed line."""
    lines = (ROOT / "scripts" / "equivalent_mutants.jsonl").read_text(encoding="utf-8").splitlines()
    return {(one["module"], one["line"], one["becomes"]): one["why"] for one in map(json.loads, lines)}


def reach(tests: str, tree: Path, jobs: int) -> Path:
    """Which tests call which functions, of these tests and this code; they run once and are traced; a run that was ended goes on."""
    of = hashlib.sha256(tests.encode())
    for path in sorted(path for place in ("tests", *TOPS) for path in (ROOT / place).rglob("*.py")):
        of.update(path.read_bytes())
    found = HOME / f"reach-{of.hexdigest()[:16]}.jsonl"
    if not found.exists():
        print(f"which tests of {tests} call which functions", flush=True)
        part = found.with_suffix(".part")
        options = f"-m pytest -q --tb=no -p no:cacheprovider -p scripts.mutant_reach -n {jobs} --dist loadscope {tests}".split()
        command = [sys.executable, *options, "-m", "not slow and not spark and not alone"]
        environment = {**_environment(tree), "PYHUDI_REACH": str(part)}
        subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
        part.replace(found)
    return found


def session(number: int, chosen: list[Candidate], found: Path) -> Path:
    """A session of cosmic-ray for these mutants, with its configuration; one of the same mutants and tests goes on where it was."""
    folder = HOME / f"session-{number}"
    of = folder / hashlib.sha256(f"{found} {sorted(each.key for each in chosen)}".encode()).hexdigest()[:16]
    if not of.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with use_db(folder / "session.sqlite") as work:
            work.add_work_items([WorkItem.single(each.key, each.spec) for each in chosen])
        of.touch()
    command = shlex.join([sys.executable, "scripts/mutant_reach.py", str(found), str(ROOT), *TOPS])
    settings = f'timeout = 300\nmodule-path = "."\ntest-command = {json.dumps(command)}\n'
    (folder / "cr.toml").write_text(f'[cosmic-ray]\n{settings}distributor.name = "local"\n', encoding="utf-8")
    return folder


def run(folder: Path, tree: Path, end: float) -> dict[str, Any]:
    """The results of a session that runs until the end of the time."""
    program = [Path(sys.executable).with_name("cosmic-ray"), "exec", folder / "cr.toml", folder / "session.sqlite"]
    with subprocess.Popen(program, cwd=tree, env=_environment(tree), start_new_session=True) as process:
        try:
            process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    with use_db(folder / "session.sqlite") as work:
        return dict(work.results)


def _environment(tree: Path) -> dict[str, str]:
    compiled = {"PYTHONPYCACHEPREFIX": str(HOME / "bytecode"), "PYHUDI_FUZZ": "1", "JAVA_HOME": "/nonexistent"}
    return {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'tests'}", **compiled}


def _became(diff: str) -> str:
    """The line as the mutant has it."""
    added = (line[1:].strip() for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++"))
    return " ".join(added)


def copy_project(tree: Path) -> Path:
    """A copy of what git knows, in which the changes are made."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def summary(found: Iterable[tuple[Candidate, Any]], total: int, asked: int, seed: int) -> dict[str, Any]:
    """The figures: counts by package, and every mutant that no test noticed."""
    known, rooms, survivors = equivalents(), {room: Counter[str]() for room in ROOMS}, []
    for each, result in found:
        module, caught = str(each.spec.module_path), result.test_outcome != TestOutcome.SURVIVED
        room = room_of(module)
        why = "" if caught else known.get((module, each.text, _became(result.diff)), "")
        rooms[room].update(["run", "caught" if caught else "equivalent" if why else "survived"])
        if not caught:
            place = f"{module}:{each.spec.start_pos[0]}"
            survivors.append({"place": place, "line": each.text, "becomes": _became(result.diff), "why": why})
    survivors.sort(key=lambda one: one["place"])
    counts = {room: dict(counts) for room, counts in rooms.items() if counts}
    return {"mutants": total, "sample": asked, "seed": seed, "rooms": counts, "survivors": survivors}


def score(rooms: Mapping[str, Mapping[str, int]]) -> float:
    """The share of the mutants that are not equivalent and were caught."""
    caught, survived = (sum(counts.get(name, 0) for counts in rooms.values()) for name in ("caught", "survived"))
    return caught / max(caught + survived, 1)


def main() -> int:
    """Draw the sample, run it, and say what survived; exit status 1 if some of it was not run, or it is below the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--only", default="", metavar="TEXT")
    given = parser.parse_args()
    modules = sorted({path for top in TOPS for path in (ROOT / top).rglob("*.py")})
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in modules}
    for module, line, _ in equivalents():
        if line not in map(str.strip, texts.get(module, "").splitlines()):
            print(f"no longer in the code, remove it from equivalent_mutants.jsonl: {module}: {line}")
    found = [each for module, code in texts.items() if given.only in module for each in candidates(code, module)]
    chosen = sample(found, given.size, given.seed, 0 if given.only else LEAST)
    end = time.monotonic() + 60 * given.minutes
    rooms = {room_of(str(each.spec.module_path)) for each in chosen}
    tests = " ".join(ROOMS[room] for room in sorted(rooms)) if given.only else ALL_TESTS
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pyhudi-mutants-") as place, ThreadPoolExecutor(given.jobs) as pool:
        trees = [copy_project(Path(place, str(number))) for number in range(given.jobs)]
        found_reach = reach(tests, trees[0], given.jobs)
        folders = [session(number, chosen[number :: given.jobs], found_reach) for number in range(given.jobs)]
        done = dict(pair for part in pool.map(run, folders, trees, [end] * given.jobs) for pair in part.items())
    results = [(each, done[each.key]) for each in chosen if each.key in done]
    figures = summary(results, len(found), len(chosen), given.seed)
    for survivor in figures["survivors"]:
        print(
            f"{survivor['place']}: {survivor['line']} -> {survivor['becomes']}",
            survivor["why"] and f"(does the same: {survivor['why']})",
        )
    if not given.only:
        record("mutants", figures)
    share = score(figures["rooms"])
    print(f"{len(results)} of {len(chosen)} mutants run; {share:.1%} of those that are not equivalent caught")
    return int(len(results) < len(chosen) or share < GOAL)


if __name__ == "__main__":
    sys.exit(main())
