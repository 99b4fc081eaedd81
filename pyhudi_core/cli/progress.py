"""The estimate and the progress of a table service on the terminal. The bar is on standard error; without a terminal there is no bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from pyhudi_core.cli.terminal import safe
from pyhudi_core.services.estimates import SECONDS
from pyhudi_core.services.progress import ServiceProgress
from pyhudi_core.services.service import ServicePlan


def with_estimate(plan: ServicePlan) -> str:
    """Return the plan as a sentence, with its estimate."""
    seconds = plan.figures.get(SECONDS, 0)
    return f"{plan} (about {seconds:,.1f} s)" if plan and seconds else str(plan)


class Description(TextColumn):
    """What is done now. In a narrow terminal this column is shortened; numbers are not."""

    def __init__(self) -> None:
        super().__init__("{task.description}", table_column=Column())

    def render(self, task: Task) -> Text:
        """Return the description, on one line."""
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


def bar_of(*columns: ProgressColumn, console: Console | None = None) -> Bar:
    """Return a bar on standard error, or on this console, which is removed at its end; without a terminal, a bar that prints nothing."""
    shown = console or Console(stderr=True)
    return Bar(*columns, console=shown, transient=True, disable=not shown.is_terminal)


@contextmanager
def progress_bar(began: str, console: Console | None = None) -> Iterator[ServiceProgress]:
    """Show the progress of a service. ``began``: the text until the service reports its first step; ``console``: standard error by default."""
    columns = (
        SpinnerColumn(),
        Description(),
        BarColumn(bar_width=30),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
    )
    with bar_of(*columns, console=console) as bar:
        task, farthest = bar.add_task(safe(began), total=None), ("", 0)

        def show(what: str, done: int, total: int) -> None:
            nonlocal farthest
            # The numbers come from several threads, so a lower one may come later.
            if what == farthest[0] and done < farthest[1]:
                return
            farthest = (what, done)
            bar.update(task, description=safe(what), completed=done, total=total or None)

        yield show
