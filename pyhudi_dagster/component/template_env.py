"""Environment variables in a component's YAML. An unset variable is an error with its name; in Dagster's own scope an unset variable would be None.

With None, ``"{{ env.LAKE }}/tables"`` would be the folder ``None/tables``.
"""

from __future__ import annotations

import os
from typing import Any, Literal

from jinja2 import StrictUndefined

_NOTHING: Any = object()


class _Unset(StrictUndefined):
    """An unset variable: false in a condition, such as ``env.LAKE or 'lake'``, and an error as a value."""

    def __bool__(self) -> Literal[False]:  # type: ignore[override]
        return False


class TemplateEnv:
    """``env`` in templates: ``env.NAME``, or ``env('NAME', 'a default')``."""

    def __call__(self, name: str, default: Any = _NOTHING) -> Any:
        value = os.environ.get(name, default)
        if value is _NOTHING:
            hint = f"The environment variable {name} is not set. Set it, or give a default: env('{name}', 'a default')."
            return _Unset(hint)
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("jinja", "__")):  # jinja requests its own attributes from every object
            raise AttributeError(name)
        return self(name)
