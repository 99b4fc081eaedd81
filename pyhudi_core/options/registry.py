"""Look up, check and type options; generate their documentation.

Invariant: in the result every key is known, every value has its option's type and bounds, and no two keys of one option contradict each other.
Otherwise an error names the key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyhudi_core.errors import InvalidOptionError, UnknownOptionError
from pyhudi_core.lazy import lazy
from pyhudi_core.lock.kind import LockKind
from pyhudi_core.lock.kinds import LOCK_OPTIONS, own_options
from pyhudi_core.model.help_pages import see
from pyhudi_core.model.masking import masked_text
from pyhudi_core.model.option import LateWords, Option, Scope
from pyhudi_core.model.safe_path import is_unicode
from pyhudi_core.options.definitions import LATER_PREFIXES, TABLE_OPTIONS, WRITE_OPTIONS

if TYPE_CHECKING:
    import difflib

    from pyhudi_core.options import not_here
    from pyhudi_core.storage import opening as storages
else:
    difflib = lazy("difflib")
    not_here = lazy("pyhudi_core.options.not_here")
    storages = lazy("pyhudi_core.storage.opening")

Value = bool | int | float | str | None

_MISSPELT = 0.88
_OPTIONS = TABLE_OPTIONS + WRITE_OPTIONS + LOCK_OPTIONS
_BY_KEY: Mapping[str, Option] = {key: option for option in _OPTIONS for key in (option.key, *option.aliases)}


def every_option() -> tuple[Option, ...]:
    """Return all options, including the options of single lock providers."""
    return (*_OPTIONS, *dict.fromkeys(own_options().values()))


def _known(key: str) -> Option | None:
    """Return the option of a key. Imports the lock providers only for a key that no other option has."""
    return _BY_KEY.get(key) or own_options().get(key)


def of_one_lock(options: Iterable[Option]) -> list[Option]:
    """Return the options that belong to one lock provider."""
    return [option for option in options if option.key not in _BY_KEY]


def find_option(key: str) -> Option:
    """Return the option of a key or an alias. Raises `UnknownOptionError` with the most similar known key."""
    if not isinstance(key, str):
        raise UnknownOptionError(f"the option {key!r} does not exist", hint="The keys of options are text.")
    option = _known(key)
    if option is not None:
        return option
    if any(key == option.key for kind in storages.every_kind() for option in kind.options()):
        hint = f"It is an option of the storage: storage_options={{{key!r}: ...}}."
        raise UnknownOptionError(f"the option {key!r} does not exist", hint=hint)
    elsewhere = not_here.instead_of(key)
    if elsewhere is not None:
        raise UnknownOptionError(f"Hudi's option {key!r} does not apply here", hint=f"Omit it: {elsewhere}")
    lowered = {known.lower(): known for known in (*_BY_KEY, *own_options())}
    # A misspelling differs in a letter or two. An option of Hudi that is not here resembles others more loosely: to name one would mislead.
    near = difflib.get_close_matches(key.lower(), lowered, n=1, cutoff=_MISSPELT)
    hint = f"Did you mean {lowered[near[0]]}?" if near else see("options")
    if key.startswith(LATER_PREFIXES):
        raise UnknownOptionError(f"this package does not have the option {key!r}; Hudi may have it", hint=hint)
    raise UnknownOptionError(f"the option {key!r} does not exist", hint=hint)


def read_options(options: Mapping[str, object]) -> dict[Option, Value]:
    """Return the options of a mapping, typed.

    Raises:
        UnknownOptionError: a key is not an option.
        InvalidOptionError: a value has the wrong type or is out of bounds, or two keys of one option contradict each other.
    """
    if not isinstance(options, Mapping):
        raise InvalidOptionError(
            f"options= takes a mapping, not {type(options).__name__}",
            hint='For example options={"isolation": "snapshot"}.',
        )
    _refuse_unknown(options)
    found: dict[Option, Value] = {}
    keys: dict[str, str] = {}
    for key, given in options.items():
        option = find_option(key)
        value = read_value(option, given, key)
        first = keys.setdefault(option.key, key)
        if first != key and found[option] != value:
            raise InvalidOptionError(
                f"{first} and {key} are one option, but have the values {found[option]!r} and {value!r}",
                hint="Omit one of them",
            )
        found[option] = value
    return found


def _refuse_unknown(keys: Iterable[str]) -> None:
    """Raise one `UnknownOptionError` for all unknown keys, so that the user sees all unknown options of a Hudi job at once."""
    refused: list[UnknownOptionError] = []
    for key in keys:
        try:
            find_option(key)
        except UnknownOptionError as error:
            refused.append(error)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise UnknownOptionError(
            f"{len(refused)} of the options cannot be used",
            hint=" ".join(f"{number}. {error.message}. {error.hint}" for number, error in enumerate(refused, 1)),
        )


def options_for_open(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options without those that describe a new table, so that options for `create_table` also fit `open_table`.

    Unknown keys stay, so that `open_table` reports them.
    """
    return {key: value for key, value in options.items() if key not in _BY_KEY or _BY_KEY[key].scope is not Scope.TABLE}


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are not secret, so that they can be logged and sent."""
    found = {key: _known(key) for key in options}
    return {key: value for key, value in options.items() if not ((option := found[key]) and option.secret)}


def read_value(option: Option, given: object, key: str) -> Value:
    """Convert one value to its option's type; ``key`` is the name the caller used, for the error."""
    text = (str(given).lower() if isinstance(given, bool) else str(given)).strip()
    if option.choices or option.kind is bool:
        return _word(option, text, key)
    if option.kind in (int, float):
        return _number(option, text, key)
    if "\0" in text or "\n" in text or not is_unicode(text):
        raise InvalidOptionError(
            f"{key} holds a NUL, a line end or an incomplete character (a lone surrogate)", hint="Give plain text"
        )
    return text


def render_docs() -> str:
    """Return the text of ``docs/options.md``."""
    lines = [
        "# Options",
        "",
        "Generated from the code. Keys are Hudi's; `pyhudi.*` and keys without a dot are this package's own.",
        "An unknown key, a value out of bounds, or a value that contradicts the table raises an error before anything is written.",
    ]
    lines += ["", "## The ten that people need", "", "| what you want | option |", "|---|---|"]
    lines += [f"| {want} | `{_BY_KEY[key].key}`{value} |" for want, key, value in _NEEDED]
    for scope, title in _TITLES.items():
        lines += ["", f"## {title}", "", *_table(option for option in _OPTIONS if option.scope is scope)]
    lines += ["", f"The options of one kind of lock are in its section of the page about locks. {see('locks')}."]
    for storage in storages.every_kind():
        lines += ["", f"## Of the storage (`storage_options`): {storage.title}", "", *_table(storage.options())]
    lines += [
        "",
        "## Options of Hudi that are not options here",
        "",
        "They raise an error, so that no option is passed over. Leave them out; the table says what does the same here. `*` is any text.",
        "",
        "| keys | what does it here |",
        "|---|---|",
    ]
    lines += [
        f"| {'<br>'.join(f'`{key}`' for key in sorted(keys))} | {_sentence(why)} |" for why, keys in not_here.NOT_HERE
    ]
    return "\n".join(lines) + "\n"


def render_own_options(kind: LockKind) -> str:
    """Return the table of the options of one lock provider, for ``docs/locks.md``."""
    return "\n".join(_table(kind.options()))


def _table(options: Iterable[Option]) -> list[str]:
    return ["| key | values | default | meaning |", "|---|---|---|---|", *map(_row, options)]


def _sentence(text: str) -> str:
    """Return the text with a capital letter, unless it begins with code, such as ``table.upsert(data)``."""
    return text[0].upper() + text[1:] if text.split(maxsplit=1)[0].isalpha() else text


_NEEDED = (
    ("small, frequent updates are cheap; reads merge them", "hoodie.table.type", "=MERGE_ON_READ (or `table_type=`)"),
    ("look-ups and updates find a key without reading data files", "hoodie.metadata.record.index.enable", "=true"),
    ("queries skip files by the values of a column", "hoodie.metadata.index.column.stats.enable", "=true"),
    (
        "a key is unique in the complete table, or the hash of a key chooses its file group",
        "hoodie.index.type",
        "=GLOBAL_SIMPLE, BUCKET, ...",
    ),
    (
        "writers on several machines wait for each other",
        "hoodie.write.lock.provider",
        ": see the page about locks",
    ),
    ("older states stay readable for longer, or old files are deleted earlier", "hoodie.clean.commits.retained", "=10"),
    ("files are larger or smaller", "hoodie.parquet.max.file.size", "=125829120"),
    ("a misspelt column in the data is an error, instead of a new column", "schema_evolution", "=none"),
    ("a write is tried again more often after a conflict", "pyhudi.commit.retries", "=20"),
    ("times in conditions are in a local time zone", "pyhudi.condition.timezone", "=Europe/Berlin"),
)
"""Tasks of users, the option for each, and the text to write after it; docs/options.md begins with them."""
_TITLES = {
    Scope.TABLE: "Of the table (given to `create_table`; later values must be the same)",
    Scope.WRITE: "Of a write",
    Scope.READ: "Of a read",
    Scope.LOCK: "Of the lock",
}


def _word(option: Option, text: str, key: str) -> Value:
    choices = option.choices or {"true": "true", "false": "false"}
    word = text.lower()
    if word in choices:
        return choices[word] == "true" if option.kind is bool else choices[word]
    allowed = ", ".join(sorted(set(choices.values())))
    if word in option.not_yet:
        raise InvalidOptionError(f"{key}={text} is not supported in this release", hint=f"Possible now: {allowed}")
    raise InvalidOptionError(f"{key} cannot be {masked_text(text, 80)!r}", hint=f"Possible: {allowed}")


def _number(option: Option, text: str, key: str) -> Value:
    try:
        if not text.isascii() or "_" in text:
            raise ValueError
        value = option.kind(text)
    except ValueError:
        what = "a whole number" if option.kind is int else "a number"
        raise InvalidOptionError(f"{key} must be {what}, not {masked_text(text, 80)!r}", hint=_bounds(option)) from None
    low = -math.inf if option.minimum is None else option.minimum
    high = math.inf if option.maximum is None else option.maximum
    if not low <= value <= high or math.isinf(value):
        raise InvalidOptionError(f"{key}={text[:80]} is out of bounds", hint=_bounds(option))
    return value  # type: ignore[no-any-return]


def _bounds(option: Option) -> str:
    parts = [
        f"at {name} {bound:.15g}"
        for name, bound in (("least", option.minimum), ("most", option.maximum))
        if bound is not None
    ]
    return f"It is {' and '.join(parts)}" if parts else f"The default is {option.default}"


def _row(option: Option) -> str:
    keys = "<br>".join(f"`{key}`" for key in (option.key, *option.aliases))
    return f"| {keys} | {_values(option)} | {_default(option.default)} | {option.doc} |"


def _values(option: Option) -> str:
    if isinstance(option.choices, LateWords):
        return option.choices.what
    words: Iterable[str] = sorted(set(option.choices.values()))
    if option.choices:
        return ", ".join(f"`{word}`" for word in words)
    if option.kind is bool:
        return "`true`, `false`"
    bounds = [
        f"{sign} {bound:.15g}" for sign, bound in (("≥", option.minimum), ("≤", option.maximum)) if bound is not None
    ]
    name = {int: "whole number", float: "number", str: "text"}[option.kind]
    return f"{name} {', '.join(bounds)}".strip()


def _default(default: Value) -> str:
    if default in (None, ""):
        return ""
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"
