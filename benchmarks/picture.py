"""Horizontal bars with whiskers, as an SVG that reads well on light and dark pages. No drawing library needed."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, NAMES, VALUES = 860, 200, 150
ROW, GAP, TOP = 24, 34, 46
OURS, OTHERS = "#2f7d5b", "#8a93a3"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: the middle value, the ends of its whisker, and whether it is this project's."""

    name: str
    value: float
    low: float
    high: float
    ours: bool


def bars(title: str, groups: dict[str, list[Bar]]) -> str:
    """The picture; one block of bars for each group, all on one scale."""
    largest = max((bar.high for group in groups.values() for bar in group), default=1.0)
    scale = (WIDTH - NAMES - VALUES) / largest
    parts: list[str] = [_text(16, 26, title, size=15, weight=600)]
    y = TOP
    for heading, group in groups.items():
        parts.append(_text(16, y + 16, heading, size=13, weight=600))
        y += ROW
        for bar in group:
            parts += _bar(bar, y, scale)
            y += ROW
        y += GAP - ROW
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img">'
    )
    style = "font-family: system-ui, sans-serif"
    background = f'<rect width="{WIDTH}" height="{y}" rx="8" fill="#ffffff"/>'
    return "\n".join(
        [
            opening,
            f"<title>{escape(title)}</title>",
            f'<g style="{style}">',
            background,
            *parts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    width = bar.value * scale
    low, high = NAMES + bar.low * scale, NAMES + bar.high * scale
    middle = y + ROW / 2 - 2
    color = OURS if bar.ours else OTHERS
    line = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
    return [
        _text(NAMES - 8, middle + 4, bar.name, anchor="end"),
        f'<rect x="{NAMES}" y="{y + 2}" width="{width:.1f}" height="{ROW - 8}" rx="2" fill="{color}"/>',
        f'<path d="{line}" stroke="#222" fill="none"/>',
        _text(high + 8, middle + 4, f"{bar.value:.2f} ({bar.low:.2f} to {bar.high:.2f})"),
    ]


def _text(x: float, y: float, text: str, *, size: int = 12, weight: int = 400, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text {place} fill="#1d2430">{escape(text)}</text>'
