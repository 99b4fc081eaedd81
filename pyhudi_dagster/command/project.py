"""The definitions of a project, and the lakes and tables in them, for the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import dagster as dg

import pyhudi as hudi
from pyhudi_core.orchestration.errors import definition_error
from pyhudi_dagster.lake.info import HudiAssetInfo, info_of
from pyhudi_dagster.lake.resource import HudiLakeResource
from pyhudi_dagster.services.read_optimized import table_of_view


@dataclass(frozen=True, slots=True)
class Lakes:
    """The lakes of a project, with the values of their environment."""

    by_name: Mapping[str, HudiLakeResource]

    def table(self, info: HudiAssetInfo) -> hudi.HudiTable:
        """Return the table of an asset. Raises `TableNotFoundError`."""
        return self.by_name[info.lake].table(info.table, info.settings)


class Project:
    """The project of a command.

    Args:
        file, module: the place of the definitions; None: the module in ``[tool.dagster]`` of pyproject.toml, or ``definitions.py``.
        folder: the working folder.
    """

    def __init__(self, file: Path | None, module: str | None, folder: Path) -> None:
        self._file, self._module, self._folder = file, module, folder

    @cached_property
    def definitions(self) -> dg.Definitions:
        """The definitions. Raises `InvalidOptionError` if there are no definitions, and the errors of loading the definitions."""
        module = self._loaded()
        named = getattr(module, "defs", None)
        if callable(named) and not isinstance(named, dg.Definitions):
            named = named()
        if isinstance(named, dg.Definitions):
            return named
        alone = [value for value in vars(module).values() if isinstance(value, dg.Definitions)]
        if len(alone) != 1:
            raise definition_error(
                f"{module.__name__} has no Definitions under the name defs",
                "Name them defs, or pass another -f FILE or -m MODULE.",
            )
        return alone[0]

    @cached_property
    def assets(self) -> Sequence[dg.AssetSpec]:
        """The specs of the assets that are Hudi tables."""
        specs = self.definitions.resolve_all_asset_specs()
        return [spec for spec in specs if info_of(spec.key, spec.metadata, spec.partitions_def) is not None]

    @property
    def tables(self) -> list[HudiAssetInfo]:
        """The tables, in the order of their assets' keys."""
        found = [info_of(spec.key, spec.metadata, spec.partitions_def) for spec in self.assets]
        return sorted((info for info in found if info is not None), key=lambda info: info.key.to_user_string())

    def asset(self, name: str) -> HudiAssetInfo:
        """Return the table of an asset by its key, as a path. Raises `InvalidOptionError` if no asset of a Hudi table has this key."""
        return next(iter(self.chosen([name])))

    def chosen(self, names: Sequence[str]) -> list[HudiAssetInfo]:
        """Return the tables of these assets; without names, all tables. Raises `InvalidOptionError` for an asset that is not a Hudi table here."""
        by_name = {info.key.to_user_string(): info for info in self.tables}
        for name in names:
            if name not in by_name:
                raise definition_error(
                    f"{name} is no asset of a Hudi table here", f"There are {', '.join(by_name) or 'none'}."
                )
        return [by_name[name] for name in names] if names else list(by_name.values())

    def assets_by_lake(self) -> Mapping[str, list[dg.AssetSpec]]:
        """Return the specs by the resource key of their lake, with the specs of read-optimized views."""
        found: dict[str, list[dg.AssetSpec]] = {}
        for spec in self.definitions.resolve_all_asset_specs():
            info = info_of(spec.key, spec.metadata, spec.partitions_def) or table_of_view(spec)
            if info is not None:
                found.setdefault(info.lake, []).append(spec)
        return found

    @contextmanager
    def lakes(self) -> Iterator[Lakes]:
        """The lake resources with the values that a run gets. Raises `InvalidOptionError` if an asset's lake is not among the resources."""
        resources = self.definitions.resources or {}
        names = {info.lake for info in self.tables}
        missing = sorted(name for name in names if not isinstance(resources.get(name), HudiLakeResource))
        if missing:
            raise definition_error(
                f"The definitions have no HudiLakeResource under {', '.join(missing)}",
                "Add it to resources= of the Definitions.",
            )
        with dg.build_resources({name: resources[name] for name in names}) as built:
            yield Lakes({name: getattr(built, name) for name in names})

    def _loaded(self) -> ModuleType:
        if str(self._folder) not in sys.path:
            sys.path.insert(0, str(self._folder))
        module = self._module or (self._configured() if self._file is None else None)
        if module is not None:
            return importlib.import_module(module)
        path = self._file or self._folder / "definitions.py"
        if not path.is_file():
            raise definition_error(f"{path} does not exist", "Pass -f FILE or -m MODULE before the command.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None, "it is a file of Python code"
        assert spec.loader is not None, "it is a file of Python code"
        found = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = found  # annotations are looked up in sys.modules
        spec.loader.exec_module(found)
        return found

    def _configured(self) -> str | None:
        path = self._folder / "pyproject.toml"
        found = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        name = found.get("tool", {}).get("dagster", {}).get("module_name")
        return str(name) if name else None
