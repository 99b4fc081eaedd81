"""What a write does after another commit came first: wait a little, plan anew, and after too many lost races ask to go first.

Back-off with full jitter keeps contenders from marching in step; a writer that yields to a claim of somebody else (``precedence``) waits until the
claim is gone, which costs it no attempt.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.transaction import precedence
from pyhudi_core.transaction.conflict import Conflict, ConflictKind, Touched
from pyhudi_core.transaction.context import TableContext
from pyhudi_core.transaction.precedence import Holding

NOTHING = Touched(frozenset(), frozenset())
_LONGEST_MS = 5_000
_FIRST_MS = 20
_LEAST_CLAIM_MS = 60_000


@dataclass(slots=True)
class Contest:
    """The attempts of one write, however many handles they take. ``attempts`` counts those that were lost, to a commit (``lost``) or to a claim.

    ``bytes_saved`` is about what lost attempts left unwritten.
    """

    context: TableContext
    attempts: int = 0
    lost: int = 0
    longest_ms: int = 0
    holding: Holding | None = None
    touched: Touched | None = None
    bytes_saved: int = 0
    _began_ms: int = 0

    def began(self) -> None:
        """An attempt starts."""
        self._began_ms = self.context.runtime.clock.now_ms()

    def in_the_way(self, mine: Touched) -> Conflict | None:
        """The claim of another writer that the attempt has to yield to."""
        self.touched = mine
        return precedence.goes_first(self.context, mine, self.holding)

    def next_attempt(self, conflict: CommitConflictError) -> None:
        """Wait until it makes sense to try again; raises the conflict if there have been enough attempts."""
        mine = self.touched or NOTHING
        took = self.context.runtime.clock.now_ms() - self._began_ms
        self.longest_ms = max(self.longest_ms, took)
        self.attempts += 1
        self.bytes_saved += conflict.bytes_saved
        if isinstance(conflict.conflict, Conflict) and conflict.conflict.kind is ConflictKind.PRECEDENCE:
            self._claim(mine)  # before the wait, for it counts in the order of those who wait
            self._yield_to(conflict, mine)
            return
        self.lost += 1
        if self.lost > self.context.options.retry.limit:
            raise conflict
        self._claim(mine)
        self._sleep(min(_FIRST_MS * 2 ** (self.lost - 1), _LONGEST_MS))

    def over(self) -> None:
        """The write has committed, or will not."""
        holding, self.holding = self.holding, None
        if holding is not None:
            holding.give_up(self.context)

    def _claim(self, mine: Touched) -> None:
        """Ask to go first, if it is time: also a writer that only ever yields would wait for as long as claims of others come."""
        after = self.context.options.retry.reserve_after
        if 0 < after <= self.attempts:
            lasts_ms = max(_LEAST_CLAIM_MS, 3 * self.longest_ms)
            self.holding = precedence.claim(self.context, mine, lasts_ms, self.holding)

    def _yield_to(self, conflict: CommitConflictError, mine: Touched) -> None:
        """Wait until nobody goes first any more. Raises the conflict if that takes longer than the option allows."""
        clock = self.context.runtime.clock
        until = clock.monotonic() + self.context.options.retry.yield_ms / 1000
        bound_ms = _FIRST_MS
        while self.in_the_way(mine) is not None:
            if clock.monotonic() >= until:
                raise conflict
            self._sleep(bound_ms)
            bound_ms = min(bound_ms * 2, _LONGEST_MS)

    def _sleep(self, bound_ms: int) -> None:
        """Full jitter: any time up to the bound."""
        runtime = self.context.runtime
        wait_ms = runtime.ids.below(bound_ms + 1) if self.context.protections.jitter else bound_ms
        runtime.clock.sleep(wait_ms / 1000)
