"""All mutants, and the sample of them that is run.

Mutants that cannot change the behaviour of the program are left out: those in annotations, in the arguments of ``@dataclass`` and
``zip(strict=...)``, in ``__all__``, below ``if TYPE_CHECKING``, and stars that do not multiply. Each operator of the language has one or two
replacements, so that the sample is not mostly arithmetic on texts. The sample is the candidates whose seeded hashes are smallest: it stays the same
where the code stays the same.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

PLACES = ("pyhudi_core/transaction", "pyhudi_core/conflicts", "pyhudi_core/merge", "pyhudi_core/formats", "pyhudi_core/metadata_table",
          "pyhudi_core/lock", "pyhudi_core/file_groups", "pyhudi_dagster")  # fmt: skip
_COMPARISONS = (
    "Eq_NotEq",
    "NotEq_Eq",
    "Lt_LtE",
    "Lt_GtE",
    "LtE_Lt",
    "LtE_Gt",
    "Gt_GtE",
    "Gt_LtE",
    "GtE_Gt",
    "GtE_Lt",
    "Is_IsNot",
    "IsNot_Is",
)
_BINARY = ("Add_Sub", "Sub_Add", "Mul_Add", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul", "BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitOr",
           "LShift_RShift", "RShift_LShift")  # fmt: skip
OPERATORS = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISONS),
    *(f"ReplaceBinaryOperator_{pair}" for pair in _BINARY),
    "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer",
    "RemoveDecorator", "ZeroIterationForLoop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """One mutant.

    Attributes:
        key: its name, which stays the same as long as its line and the operator do; independent of line numbers.
        module: path of the file below the repository.
        operator: of cosmic-ray.
        occurrence: the number of the place among all places of the operator in the file.
        line: first line of the place, from 1.
        place: that line, and the column in characters.
        text: that line.
    """

    key: str
    module: str
    operator: str
    occurrence: int
    line: int
    place: tuple[int, int]
    text: str

    def __str__(self) -> str:
        return f"{self.key} {self.module}:{self.line} {self.operator}: {self.text}"


def candidates(root: Path, places: Iterable[str] = PLACES) -> Iterator[Candidate]:
    """Every mutant of the places."""
    for place in places:
        for path in sorted((root / place).rglob("*.py")):
            yield from candidates_of(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())


def candidates_of(code: str, module: str) -> Iterator[Candidate]:
    """Every mutant of one module."""
    tree = ast.parse(code)
    lines, silent, nodes = code.splitlines(), _silent(tree), list(ast_nodes(get_ast(code)))
    seen: Counter[str] = Counter()
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        stars = {place for node in _stars(nodes) for place in operator.mutation_positions(node)}
        for occurrence, (start, end) in enumerate(places):
            text = lines[start[0] - 1].strip()
            about = f"{module}|{name}|{text}"
            dotted = (
                name == "ExceptionReplacer" and "." in lines[start[0] - 1][start[1] : end[1]]
            )  # the tool cannot change it
            seen[about] += 1
            if (start, end) not in stars and not dotted and not any(first <= start < last for first, last in silent):
                key = hashlib.sha256(f"{about}|{seen[about]}".encode()).hexdigest()[:10]
                yield Candidate(key, module, name, occurrence, start[0], start, text)


def _stars(nodes: Iterable[Any]) -> Iterator[Any]:
    """Stars that do not multiply: those of parameters and arguments."""
    return (
        node
        for node in nodes
        if node.type == "operator" and node.value in {"*", "**"} and node.parent.type not in {"term", "power"}
    )


def _silent(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The ranges in which a change has no effect, as lines and columns."""
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in _silent_nodes(tree)
    ]


def _silent_nodes(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                yield node.annotation
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.returns is not None:
                yield node.returns
            case ast.ClassDef():
                yield from (item for item in node.decorator_list if isinstance(item, ast.Call))
            case ast.Call():
                yield from (word.value for word in node.keywords if word.arg == "strict")
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield node
            case ast.Assign() if any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets):
                yield node


def sample(found: Iterable[Candidate], size: int, seed: int) -> list[Candidate]:
    """As many of the candidates, in the order of their seeded hashes."""
    return sorted(found, key=lambda each: hashlib.sha256(f"{seed}|{each.key}".encode()).digest())[:size]


def mutated(code: str, candidate: Candidate) -> str:
    """The module's code with this change."""
    changed = mutate_code(code, get_operator(f"core/{candidate.operator}")(), candidate.occurrence)
    if changed is None or changed == code:
        raise ValueError(f"{candidate} is not in this code")
    return str(changed)
