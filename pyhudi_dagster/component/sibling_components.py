"""Refuse components that contradict each other: components that define one lake differently, and components with the same names or tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg

from pyhudi.errors import ConfigError, HudiError, InvalidOptionError
from pyhudi_core import orchestration
from pyhudi_core.orchestration.errors import definition_error

if TYPE_CHECKING:
    from pyhudi_dagster.component.lake_component import HudiLakeComponent

_SHOWN = 3
"""How many tables of a component an error names at most."""


def name_of(context: dg.ComponentLoadContext) -> str:
    """Return the name of a component in errors: the component's folder below ``defs``. If the component is not the first in its file, its number or
    name follows.
    """
    place, root = context.component_path, context.defs_module_path
    folder = (
        place.file_path.relative_to(root).as_posix() if place.file_path.is_relative_to(root) else place.file_path.name
    )
    folder = root.name if folder == "." else folder
    return folder if place.instance_key in (None, 0) else f"{folder}[{place.instance_key}]"


@contextmanager
def naming(component: HudiLakeComponent, table: str = "") -> Iterator[None]:
    """Name the component, and the table, in errors about the definitions that the component makes. The errors may be errors of this package, or
    Dagster's own errors about owners, tags and names.
    """
    where = f"The component {component.name}: " + (f"The table {table}: " if table else "")
    try:
        yield
    except InvalidOptionError as error:
        if error.message.startswith("The component"):  # or "The components", which include this one
            raise
        of_table = "" if not table or table in error.message else f"The table {table}: "
        message = f"The component {component.name}: {of_table}{error.message}"
        raise definition_error(message, error.hint or "") from error
    except (dg.DagsterInvalidDefinitionError, ValueError) as error:
        if isinstance(error, HudiError):
            raise
        raise definition_error(f"{where}{error}".rstrip("."), "Correct the attribute in YAML.") from error


def refuse_unequal(one: HudiLakeComponent, other: HudiLakeComponent) -> None:
    """Raise `InvalidOptionError` if two components define one lake differently. A component without a warehouse defines no lake."""
    if not one.warehouse or not other.warehouse:
        return
    for field in ("warehouse", "storage_options", "options"):
        mine, theirs = getattr(one, field), getattr(other, field)
        if mine != theirs:
            which = (
                orchestration.masked_text(f"{mine} and {theirs}")
                if field == "warehouse"
                else ", ".join(_different(mine, theirs))
            )
            raise definition_error(
                f"The components {_with_tables(one)} and {_with_tables(other)} define the lake {one.lake} differently: {field} ({which})",
                f"Give them the same {field}:, or one of them another lake:, such as lake: archive. Then its tables are in that lake.",
            )


def _different(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    return sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))


def _with_tables(component: HudiLakeComponent) -> str:
    keys = sorted(component.table_paths())
    more = ", ..." if len(keys) > _SHOWN else ""
    return f"{component.name} (tables {', '.join(keys[:_SHOWN])}{more})" if keys else component.name


def unfit_field(component: HudiLakeComponent) -> str:
    """Return the name of the field of a component whose value makes it impossible to open a table."""
    for field, storage_options in (("warehouse", {}), ("storage_options", component.storage_options)):
        try:
            orchestration.refuse_unfit_options({}, location=component.warehouse, storage_options=storage_options)
        except ConfigError:
            return field
    return "options"


def refuse_equal_keys(one: HudiLakeComponent, others: Iterable[HudiLakeComponent]) -> None:
    """Raise `InvalidOptionError` if components of several lakes have one asset, or if one component has an asset twice."""
    having: dict[dg.AssetKey, str] = {}
    for component in (one, *others):
        for key in component.asset_keys():
            if key in having:
                raise definition_error(
                    f"The components {having[key]} and {component.name} both have the asset {key.to_user_string()}"
                    if having[key] != component.name
                    else f"The component {component.name} has the asset {key.to_user_string()} twice",
                    "Keep it in one place, or change the key of one of them (key:). The asset key is the path of the table in its lake.",
                )
            having[key] = component.name


def refuse_twins_of(one: HudiLakeComponent, other: HudiLakeComponent) -> None:
    """Raise `InvalidOptionError` if two components make definitions with the same name, or for the same table of one lake."""
    same_lake = one.lake == other.lake
    both = sorted(one.table_paths() & other.table_paths()) if same_lake else []
    components = f"The components {one.name} and {other.name}"
    if both:
        raise definition_error(f"{components} both have the table {both[0]}", "Keep it in one of them.")
    for field in ("services", "timeline_sensor", "checks"):
        for name in _names(one, field) & _names(other, field):
            if name is None and not same_lake:
                continue  # the default names follow the lakes
            raise definition_error(
                f"{components} both have {field} with the name {name or 'of the lake ' + one.lake}",
                f"Set name: of {field} in one of them, such as name: {one.name.rpartition('/')[2].partition('[')[0]}_{field}.",
            )


def _names(component: HudiLakeComponent, field: str) -> set[str | None]:
    """Return the names of the definitions that a component makes. None is the default name, which follows the lake."""
    if field == "services":
        return {policy.name for policy in component.policies()}
    if field == "checks":
        checks = [*component.checks, *(component.defaults.checks or [])]
        return {check.name_of_job for check in checks if check.cron}
    return {component.timeline_sensor.name} if component.timeline_sensor is not None else set()
