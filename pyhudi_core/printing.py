"""How the objects that users look at are shown: one line in a session of Python, a small table in a notebook."""

from __future__ import annotations

from typing import Any, TypeVar

_T = TypeVar("_T", bound=type)
_LONGEST = 500


def printable(cls: _T) -> _T:
    """Decorate a class: its ``repr`` is one line that names the class, and a notebook shows this line and the object's ``figures``.

    The line is what ``str`` says, or the class's own ``repr`` if it has no ``str``. It is the decorator above ``@dataclass``.
    """
    said: Any = vars(cls).get("__str__", cls.__repr__)

    def line(self: Any) -> str:
        text, name = " ".join(said(self).split()), type(self).__name__
        text = text if text.startswith(name) else f"{name}: {text}"
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."

    def table(self: Any) -> str:
        from html import escape  # noqa: PLC0415  (opening a table shows nothing)

        figures = getattr(self, "figures", {})
        rows = "".join(
            f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>" for name, value in figures.items()
        )
        return f"<p>{escape(line(self))}</p>" + (f"<table>{rows}</table>" if rows else "")

    made: Any = cls
    made.__repr__ = line
    if "_repr_html_" not in vars(cls):
        made._repr_html_ = table
    return cls
