"""The objects that belong to a table, of all that are below its folder."""

from __future__ import annotations

from itertools import chain

from pyhudi_core.runtime.base import Executor
from pyhudi_core.storage import own_part
from pyhudi_core.storage.base import ObjectInfo, Storage


def own_objects(storage: Storage, executor: Executor) -> list[ObjectInfo]:
    """All objects of a table outside of its ``.hoodie``. Tables inside its folder are left out: their files would look like files of this one."""
    top = storage.list_folder("")
    folders = [path for path in top.folders if path != own_part.HOODIE]
    below = executor.at_least(storage.capabilities.parallel_calls).map(lambda path: storage.list(f"{path}/"), folders)
    return own_part.own_objects([*top.objects, *chain.from_iterable(below)])
