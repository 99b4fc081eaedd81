"""Find tests that neither `make test` nor a part of `make nightly` runs: ``python scripts/nightly_reach.py``; exit status 1 if there are any.

pytest collects all tests once, with every marker and every release of Apache Hudi, and each part is asked for each of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from _pytest.mark import KeywordMatcher  # pytest has no public function that evaluates `-k`
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.nightly_parts import PARTS, Part  # noqa: E402


@dataclass(frozen=True, slots=True)
class Case:
    """A collected test.

    Attributes:
        name: as pytest prints it, with its path.
        slow: whether `make test` leaves it out.
        release: the release of Apache Hudi that it is for; empty for none.
        fits: whether an expression of `-k` chooses it.
    """

    name: str
    slow: bool
    release: str = ""
    fits: Callable[[str], bool] = lambda _: True

    @property
    def path(self) -> str:
        return self.name.partition("::")[0]


class _Collector:
    """Keeps what pytest has collected."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.cases = [_case(item) for item in session.items]


def _case(item: pytest.Item) -> Case:
    values = getattr(item, "callspec", None)
    release = str(values.params.get("judge", "")) if values is not None else ""
    matcher = KeywordMatcher.from_item(item)
    slow = item.get_closest_marker("slow") is not None
    return Case(item.nodeid, slow, release, lambda words: Expression.compile(words).evaluate(matcher))


def collected(root: Path) -> list[Case]:
    """All tests below ``tests``. Raises `RuntimeError` if pytest cannot collect them."""
    collector = _Collector()
    words = ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={root}", str(root / "tests")]
    if (root / "tests" / "interop").exists() and not (root / ".interop").exists():
        print("tests/interop is left out: it cannot be collected without its environment (make interop)")
        words.append(f"--ignore={root / 'tests' / 'interop'}")
    with redirect_stdout(StringIO()) as said:
        status = pytest.main(words, plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest cannot collect the tests:\n{said.getvalue()[-2000:]}")
    return collector.cases


def runs(part: Part, case: Case) -> bool:
    """Whether a part runs a test."""
    inside = bool(part.paths) and case.path.startswith(part.paths) and not case.path.startswith(part.left_out)
    releases = part.environment.get("HUDI_VERSIONS", case.release).split(",")
    speed = not (part.quick if case.slow else part.slow)
    return (
        inside
        and speed
        and (not case.release or case.release in releases)
        and (not part.keyword or case.fits(part.keyword))
    )


def quick_leaves_out(makefile: str) -> tuple[str, ...]:
    """The paths that `make test` omits."""
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    if recipe is None:
        raise ValueError("the Makefile has no target `test`")
    return tuple(re.findall(r"--ignore=(\S+)", recipe.group(1)))


def unreached(cases: Iterable[Case], left_out: tuple[str, ...], parts: Mapping[str, Part] = PARTS) -> list[Case]:
    """Tests that neither `make test` nor a part of `make nightly` runs."""
    away = [case for case in cases if case.slow or case.path.startswith(left_out)]
    return [case for case in away if not any(runs(part, case) for part in parts.values())]


def main() -> int:
    """List the tests that no target runs."""
    found = unreached(collected(ROOT), quick_leaves_out((ROOT / "Makefile").read_text(encoding="utf-8")))
    for case in found[:20]:
        print(
            f"no target runs {case.name}; give it a part in scripts/nightly_parts.py, then run python scripts/nightly.py --page"
        )
    if len(found) > 20:
        print(f"... and {len(found) - 20} more")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
