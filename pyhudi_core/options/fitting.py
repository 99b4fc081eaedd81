"""Check options before a table exists: they must be valid, and their lock must exclude the writers of a location.

Programs that only declare tables use this module, such as Dagster when it loads definitions. It reads no storage, and imports no writer.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.lock.kinds import GENERATOR, PROVIDER, every_kind, refuse_incomplete
from pyhudi_core.options.registry import of_one_lock, read_options
from pyhudi_core.options.table_options import TableOptions
from pyhudi_core.options.write_options import WriteOptions
from pyhudi_core.storage.opening import refuse_unfit_storage_options
from pyhudi_core.storage.paths import is_catalog_address, parse_location

_REMEMBERED = 1000
_FIT: set[str] = set()
"""The checked options, as text. Tables of a lake usually have the same options, and each is checked several times while definitions load."""
_BY_SCHEME = {"file": "file_system", "memory": "in_process"}


def refuse_unfit_options(
    options: Mapping[str, object],
    *,
    location: str | None = None,
    processes: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Raise the errors of opening a table with these options, without a table.

    Args:
        options: keys to values, as for `create_table`.
        location: the location of the table; if it is given, the lock is also checked against its storage.
        processes: whether several processes write, so that a lock inside one process is not enough.
        storage_options: options of the location's storage.

    Raises:
        UnknownOptionError: a key is not an option, or the storage does not have a storage option.
        InvalidOptionError: a value is wrong, two options contradict each other, the location has no storage, or the lock or the generator of
            times is configured only in part; or there are options of another lock, or the lock cannot exclude the writers of this location.
    """
    given = repr((options, location, processes, storage_options))
    if given in _FIT:
        return
    TableOptions.parse(options)
    WriteOptions.parse(options)
    if location is not None and not is_catalog_address(
        location
    ):  # only the catalog knows in which storage its tables are
        refuse_unfit_storage_options(location, storage_options or {})
        _refuse_unfit_lock(options, parse_location(location).scheme, location, processes)
    if len(_FIT) < _REMEMBERED:
        _FIT.add(given)


def _refuse_unfit_lock(options: Mapping[str, object], scheme: str, location: str, processes: bool) -> None:
    found = read_options(options)
    called = {option.attribute: option.key for option in found}
    values = {option.key: str(value) for option, value in found.items()}
    given = values.get(PROVIDER)
    provider = given or _BY_SCHEME.get(scheme, "storage_based")
    if provider == "storage_based" and scheme == "file":
        raise InvalidOptionError(
            f"{PROVIDER}=storage_based needs an object store with conditional replacement, and {location} is a folder on a disk",
            hint=f"Leave {PROVIDER} out: a disk has the lock file_system.",
        )
    if given == "in_process" and processes and scheme != "memory":
        raise InvalidOptionError(
            f"{PROVIDER}=in_process excludes only the writers of one process, and several processes write below {location}",
            hint=f"Leave {PROVIDER} out: a disk has the lock file_system, and an object store storage_based.",
        )
    generator = values.get(GENERATOR, "system")
    refuse_incomplete(PROVIDER, provider, called.__contains__)
    refuse_incomplete(GENERATOR, generator, called.__contains__)
    own = of_one_lock(found)
    for kind in every_kind() if own else ():
        unused = [option.key for option in own if option in kind.options()]
        if unused and provider not in kind.names and generator not in kind.names:
            raise InvalidOptionError(
                f"{', '.join(unused)} belongs to the lock {kind.name}, but {'the lock is' if given else f'the lock of {location} is'} {provider}",
                hint=f"Remove it, or set {PROVIDER}={kind.name}.",
            )
