"""The newest instants of a timeline for Dagster's UI: a table, and a chart drawn as SVG inside Markdown.

The UI allows images with a ``data:`` address in Markdown, so the chart needs no server. The chart shows at most 20 instants, to keep the event small.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import dagster as dg

import pyhudi as hudi
from pyhudi_core.orchestration.instant_times import parsed
from pyhudi_dagster.timeline.identity import PREFIX

SHOWN = 20
_COLOURS = {
    "commit": "#2e7d32",
    "deltacommit": "#558b2f",
    "replacecommit": "#1565c0",
    "rollback": "#c62828",
    "clean": "#6d4c41",
}
_OTHER_WORDS = {"delete_partition": "delete_partitions", "replacecommit": "replace"}
_OTHER, _PENDING = "#5e35b1", "#f9a825"
_WIDTH, _ROW, _LABELS, _TOP = 760, 16, 250, 22


@dataclass(frozen=True, slots=True)
class Entry:
    """One instant: its times, its operation, and its numbers of rows. Times have the format of the timeline (17 digits); the operation comes
    from `operation_name`."""

    requested: str
    completed: str | None
    action: str
    operation: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    run_id: str = ""


def operation_name(operation: str | None, action: str) -> str:
    """Return the operation of a commit, in the words of `HudiWrite`; the action for other instants, and for commits without an operation."""
    known = hudi.OperationType.of(operation)
    word = (operation or str(action)).lower() if known is hudi.OperationType.UNKNOWN else known.word
    return _OTHER_WORDS.get(word, word)


def entries_until(table: hudi.HudiTable, until: hudi.Instant) -> list[Entry]:
    """Return the newest instants up to the completion of the instant ``until``, for the timeline view, newest last."""
    timeline, end = table.timeline, until.completion_time or until.requested_time
    commits = set(timeline.commits)
    shown = [instant for instant in timeline if instant.requested_time <= end][-SHOWN:]
    return [_entry(table, instant, instant in commits) for instant in shown]


def _entry(table: hudi.HudiTable, instant: hudi.Instant, is_commit: bool) -> Entry:
    action = str(instant.action)
    if not is_commit:
        return Entry(instant.requested_time, instant.completion_time, action, operation_name(None, action))
    commit = table.commit_metadata(instant)
    return Entry(
        requested=instant.requested_time,
        completed=instant.completion_time,
        action=action,
        operation=operation_name(commit.operation, action),
        inserted=sum(stat.inserts for stat in commit.stats),
        updated=sum(stat.updates for stat in commit.stats),
        deleted=hudi.CommitStats.of(commit).rows_deleted,
        run_id=commit.extra.get(PREFIX + "run_id", ""),
    )


def timeline_table(entries: Sequence[Entry]) -> dg.TableMetadataValue:
    """Return the newest entries as a table, newest first, narrow enough for the UI's panel. The instant is the requested time."""
    records = [
        dg.TableRecord(
            {
                "instant": entry.requested,
                "operation": entry.operation,
                "inserted": entry.inserted,
                "updated": entry.updated,
                "deleted": entry.deleted,
                "seconds": f"{span:.1f}" if (span := _seconds(entry)) is not None else "pending",
                "run": entry.run_id[:8],
            }
        )
        for entry in reversed(entries[-SHOWN:])
    ]
    kinds = {"inserted": "int", "updated": "int", "deleted": "int"}
    names = ("instant", "operation", "inserted", "updated", "deleted", "seconds", "run")
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kinds.get(name, "string")) for name in names])
    return dg.MetadataValue.table(records=records, schema=schema)


def timeline_markdown(entries: Sequence[Entry]) -> dg.MarkdownMetadataValue:
    """Return the chart: one bar per instant, from the requested time to the completion time."""
    picture = base64.b64encode(timeline_svg(entries).encode()).decode()
    return dg.MetadataValue.md(
        f"![The newest {min(len(entries), SHOWN)} instants](data:image/svg+xml;base64,{picture})"
    )


def timeline_svg(entries: Sequence[Entry]) -> str:
    """Return the chart as SVG. Times without a commit are not drawn, so that the lengths of the bars can be compared."""
    shown = entries[-SHOWN:]
    seconds = [_seconds(entry) for entry in shown]
    longest = max([span for span in seconds if span is not None], default=0.0) or 1.0
    scale = (_WIDTH - _LABELS - 60) / longest
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_TOP + _ROW * len(shown) + 4}" '
            f'font-family="monospace" font-size="11" fill="#555" stroke-width="{_ROW - 4}">'
        ),
        f'<text y="12">requested</text><text x="{_LABELS}" y="12">duration, the longest {longest:.1f} s</text>',
    ]
    for row, (entry, span) in enumerate(zip(shown, seconds, strict=True)):
        y = _TOP + _ROW * row
        width = max(3, round((span if span is not None else longest) * scale))
        colour = _PENDING if span is None else _COLOURS.get(entry.action, _OTHER)
        label = f"{_clock(entry.requested)} {entry.operation}"
        note = "pending" if span is None else f"{span:.1f} s"
        lines.append(
            f'<text y="{y + 11}">{escape(label)}</text>'
            f'<path stroke="{colour}" d="M{_LABELS} {y + 8}h{width}"/>'
            f'<text x="{_LABELS + width + 4}" y="{y + 11}">{note}</text>'
        )
    return "".join([*lines, "</svg>"])


def _clock(time: str) -> str:
    moment = parsed(time)
    return f"{moment:%m-%d %H:%M:%S}" if moment else time


def _seconds(entry: Entry) -> float | None:
    start, end = parsed(entry.requested), parsed(entry.completed or "")
    return max(0.0, (end - start).total_seconds()) if start and end else None
