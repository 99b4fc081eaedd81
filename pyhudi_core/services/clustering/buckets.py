"""Choose the buckets of consistent hashing that a clustering splits, merges or sorts. Pure.

The rules are those of Hudi's ``SparkConsistentBucketClusteringPlanStrategy``, with two differences. A bucket that is neither split nor merged gets a
new file group only if that changes the order of its rows. The last and the first range are not merged with each other, so every merged range stays
one interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.index.hashing_metadata import LARGEST, ChildNode, HashingMetadata
from pyhudi_core.options import FileOptions, IndexOptions
from pyhudi_core.services.clustering.clustering_plan import ClusteringGroup

NewPrefix = Callable[[], str]
"""Returns the prefix of a new file id."""


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """The sizes (in bytes of a slice) above which buckets are split, and below which they are merged. The partition keeps between ``least`` and
    ``most`` buckets. None: the number of buckets does not change.
    """

    split_above: float
    merge_below: float
    least: int | None
    most: int | None

    @classmethod
    def of(cls, index: IndexOptions, files: FileOptions) -> BucketLimits:
        """Return the limits of the options."""
        least, most = index.least_buckets or index.buckets, index.most_buckets or index.buckets
        size = files.max_size
        return cls(size * index.split_threshold, size * index.merge_threshold, least, most)


def bucket_groups(
    ring: HashingMetadata,
    slices: Iterable[FileSlice],
    limits: BucketLimits,
    gains: Callable[[FileSlice], bool],
    new_prefix: NewPrefix,
    default_bytes: int = 0,
) -> list[ClusteringGroup]:
    """Return the groups of one partition. A split has one bucket; a merge has neighbouring buckets.

    Args:
        slices: the file groups that may be rewritten. Other file groups of the ring do not change.
        gains: whether sorting the rows of a bucket changes their order.
    """
    by_id = {piece.file_id: piece for piece in slices}
    here = [by_id.get(file_id) for file_id in ring.file_ids]
    ends = [end for end, _ in ring.nodes]

    def group(pieces: Sequence[FileSlice], *children: ChildNode) -> ClusteringGroup:
        outputs = sum(child.prefix is not None for child in children)
        return ClusteringGroup(tuple(pieces), outputs, default_bytes, children, ring.sequence)

    found: list[ClusteringGroup] = []
    room = (limits.most or len(ends)) - len(ends)
    for place, piece in enumerate(here):
        middle = _middle(ends, place)
        if room > 0 and piece is not None and piece.size > limits.split_above and middle is not None:
            found.append(group([piece], ChildNode(middle, new_prefix()), ChildNode(ends[place], new_prefix())))
            here[place] = None
            room -= 1
    spare = len(ends) + len(found) - (limits.least or len(ends) + len(found))
    for run in _small_runs(here, limits.merge_below, spare):
        removed = [ChildNode(ends[place], None) for place in run[:-1]]
        found.append(group([_there(here[place]) for place in run], *removed, ChildNode(ends[run[-1]], new_prefix())))
        for place in run:
            here[place] = None
    rest = ((place, piece) for place, piece in enumerate(here) if piece is not None and gains(piece))
    return found + [group([piece], ChildNode(ends[place], new_prefix())) for place, piece in rest]


def _middle(ends: Sequence[int], place: int) -> int | None:
    """Return the last hash of the lower half of a range; None if the range has only one hash.

    The first range also has the hashes above the last range.
    """
    before, end = ends[place - 1], ends[place]
    width = end - before if place else end - before + LARGEST + 1
    middle = (before + width // 2) & LARGEST
    return None if width < 2 or middle in (before, end) else middle


def _small_runs(here: Sequence[FileSlice | None], most_bytes: float, spare: int) -> list[list[int]]:
    """Return positions of at least two neighbouring buckets whose total size is small. Each merge uses up some of the ``spare`` buckets."""
    runs: list[list[int]] = []
    current: list[int] = []
    held = 0
    for place, piece in enumerate(here):
        fits = piece is not None and held + piece.size <= most_bytes and current and spare > 0
        if fits:
            spare -= 1
        else:
            runs.append(current)
            current, held = [], 0
        if piece is not None:
            current.append(place)
            held += piece.size
    return [run for run in [*runs, current] if len(run) > 1]


def _there(piece: FileSlice | None) -> FileSlice:
    assert piece is not None
    return piece
