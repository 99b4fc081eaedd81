"""The retry loop of a write or a service, for the case that another commit comes first. It waits, plans again from the table's present state, and
after too many lost attempts claims its file groups (``conflicts/precedence.py``). Every
committer uses this loop: the methods of a table, handles, Dagster and table services.

The waiting times are random, up to a bound that doubles with each lost attempt, so that competing writers do not collide repeatedly. A write that
yields to the claim of another writer waits until that claim is gone; this does not count as a lost attempt. Time and random numbers come from the
table's runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

from pyhudi_core.conflicts import precedence
from pyhudi_core.conflicts.conflict import Conflict, ConflictKind, Touched, is_final
from pyhudi_core.conflicts.precedence import Holding
from pyhudi_core.errors import CommitConflictError, ObjectNotFoundError
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.storage.base import NOT_WAITED, Waited
from pyhudi_core.timeline.lost_files import lost_file

T = TypeVar("T")
OnConflict = Callable[[CommitConflictError], object]


_NOTHING = Touched(frozenset(), frozenset())
_LONGEST_MS = 5_000
_FIRST_MS = 20
_LEAST_CLAIM_MS = 60_000


@dataclass(slots=True)
class Retries:
    """The attempts of one write or service. As a context manager it ends the claim at the end.

    Attributes:
        attempts: the number of attempts that ended with a conflict: with another commit (``lost``), or with the claim of another writer.
        lost: the number of attempts that were lost to another commit; the option ``pyhudi.commit.retries`` limits it.
        longest_ms: the duration of the longest attempt.
        touched: the changes of the latest attempt, if it planned any.
        claim: our own claim on these changes, if we made one.
        bytes_saved: about how many bytes lost attempts did not write.
    """

    context: TableContext
    attempts: int = 0
    lost: int = 0
    longest_ms: int = 0
    touched: Touched = _NOTHING
    claim: Holding | None = None
    bytes_saved: int = 0
    _began_ms: int = 0
    _waited: Waited = NOT_WAITED
    _busy_time: object = None

    def __post_init__(self) -> None:
        storage = self.context.storage
        self._waited = storage.waited
        self._busy_time = storage.busy_time(self.context.options.retry.store_wait_ms / 1000)

    @property
    def store_waits(self) -> Waited:
        """The waits of this process for a busy store since the write began."""
        return self.context.storage.waited.since(self._waited)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @contextmanager
    def attempt(self, undo: OnConflict | None = None, before_next: OnConflict | None = None) -> Iterator[None]:
        """Run the block of one attempt, in an endless loop: after a conflict the block ends without an error if another attempt makes sense.

        Args:
            undo: removes the files of the lost attempt; it may raise the conflict if another attempt would be wrong.
            before_next: called after the wait, if there is another attempt.

        Raises `CommitConflictError` if no attempt makes sense any more, `CorruptionError` if a file of the newest state is missing, and the errors
        of the block and the callables.
        """
        self.began()
        try:
            yield
        except ObjectNotFoundError as error:
            lost = lost_file(self.context.folder, error.path)
            if lost is None:
                raise
            raise lost from error
        except CommitConflictError as conflict:
            if undo is not None:
                undo(conflict)
            self.wait(conflict)
            if before_next is not None:
                before_next(conflict)

    def until_done(self, attempt: Callable[[], T]) -> T:
        """Call a service's attempt, which plans, writes and commits from the table's present state, until it ends without a conflict."""
        while True:
            with self.attempt():
                return attempt()

    def began(self) -> None:
        """Note that an attempt begins now."""
        self._began_ms = self.context.runtime.clock.now_ms()

    def claim_before(self, mine: Touched) -> Conflict | None:
        """Return the claim of another writer to which an attempt with these changes must yield."""
        self.touched = mine
        return precedence.goes_first(self.context, mine, self.claim)

    def wait(self, conflict: CommitConflictError, *, claims: bool = True) -> None:
        """Wait until another attempt makes sense. Raises the conflict if no attempt makes sense, or after too many attempts.

        ``claims``: whether to claim our changes, if it is time.

        An execution commits in its own loop, inside the loop of its service. The outer loop does not repeat an attempt that the inner loop gave up,
        because the files would be written again.
        """
        if is_final(conflict) or conflict.given_up:
            raise conflict
        took = self.context.runtime.clock.now_ms() - self._began_ms
        self.longest_ms = max(self.longest_ms, took)
        self.attempts += 1
        self.bytes_saved += conflict.bytes_saved
        if isinstance(conflict.conflict, Conflict) and conflict.conflict.kind is ConflictKind.PRECEDENCE:
            if claims:
                self._reserve()  # before the wait, because the time of a claim is its place in the queue
            self._yield_to_claims(conflict)
            return
        self.lost += 1
        if self.lost > self.context.options.retry.limit:
            conflict.given_up = True
            raise conflict
        if claims:
            self._reserve()
        self._sleep(min(_FIRST_MS * 2 ** (self.lost - 1), _LONGEST_MS))

    def end(self) -> None:
        """End the attempts: withdraw our claim."""
        claim, self.claim = self.claim, None
        if claim is not None:
            claim.give_up(self.context)
        self._busy_time = None

    def _reserve(self) -> None:
        """Claim our changes, if it is time. Writes that only yield also claim; otherwise they could wait as long as others make claims."""
        after = self.context.options.retry.reserve_after
        if 0 < after <= self.attempts:
            lasts_ms = max(_LEAST_CLAIM_MS, 3 * self.longest_ms)
            self.claim = precedence.claim(self.context, self.touched, lasts_ms, self.claim)

    def _yield_to_claims(self, conflict: CommitConflictError) -> None:
        """Wait until no other writer's claim is before ours. Raises the conflict if that takes longer than the option allows."""
        clock = self.context.runtime.clock
        until = clock.monotonic() + self.context.options.retry.yield_ms / 1000
        bound_ms = _FIRST_MS
        while self.claim_before(self.touched) is not None:
            if clock.monotonic() >= until:
                conflict.given_up = True
                raise conflict
            self._sleep(bound_ms)
            bound_ms = min(bound_ms * 2, _LONGEST_MS)

    def _sleep(self, bound_ms: int) -> None:
        """Sleep for a random time up to the bound."""
        runtime = self.context.runtime
        wait_ms = runtime.ids.below(bound_ms + 1) if self.context.protections.jitter else bound_ms
        runtime.clock.sleep(wait_ms / 1000)
