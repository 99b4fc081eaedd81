"""A permit: a process that writes asks another one, which started it, whether its commit is still wanted.

For writes in a process that cannot see who wants them, such as a Spark job that an orchestrator started on a cluster. Both see one folder of a
storage, outside of the table. When its files are written, and before it takes the table's lock, the writer puts a question there and waits for the
answer. Under the lock it looks once whether the answer still stands. Without an answer nothing is published; so a writer whose orchestrator is gone
never publishes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyhudi_core.errors import CommitAbortedError, ObjectNotFoundError
from pyhudi_core.runtime import Clock
from pyhudi_core.storage.base import Storage

POLL_S = 0.5
VALID_S = 60.0
"""For so long after its question an answer stands, in seconds. Later, what it says may have changed: the question is asked again."""
_DONE = "done.json"


class Permit:
    """The folder in which one write asks for its commits.

    Args:
        storage: the folder; each write has one of its own.
        clock: for waiting.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._asked = 0
        self._asked_at = 0.0
        self._answered = 0

    def ask(self, facts: Mapping[str, Any], timeout_s: float) -> None:
        """The writer: ask whether to commit, and return if it may. Not to be called while the table's lock is held, because it waits.

        Args:
            facts: what would be committed, as JSON.
            timeout_s: seconds to wait for an answer, also for a newer one if the first comes too late to stand.

        Raises `CommitAbortedError` if the answer is no, and if there is none in time; nothing may be published then.
        """
        until = self._clock.monotonic() + timeout_s
        self._put_question(facts)
        while not self._granted() or not self._is_young():
            if self._clock.monotonic() > until:
                raise CommitAbortedError(
                    f"Nobody permitted the commit within {timeout_s:g} s",
                    path=self._storage.location,
                    hint="Nothing was published. The run that started this write has probably ended; start a new one.",
                )
            if not self._is_young():
                self._put_question(facts)
            self._clock.sleep(POLL_S)

    def stands(self) -> bool:
        """Return the writer, under the table's lock: whether the permission is young enough to commit; else ask again, without the lock.

        Raises `CommitAbortedError` if the permission was taken back. One storage call at most.
        """
        if not self._is_young():
            return False
        if not self._granted():
            raise CommitAbortedError(
                "The permission to commit was taken back",
                path=self._storage.location,
                hint="Nothing was published. The run that started this write has ended; start a new one.",
            )
        return self._is_young()

    def _put_question(self, facts: Mapping[str, Any]) -> None:
        self._asked += 1
        self._asked_at = self._clock.monotonic()
        self._put(f"question-{self._asked}.json", facts)

    def _granted(self) -> bool:
        """Say whether there is an answer to the latest question. Raises `CommitAbortedError` if it is no."""
        answer = self._get(f"answer-{self._asked}.json")
        if answer is not None and not answer.get("granted"):
            raise CommitAbortedError(
                f"The commit was refused: {answer.get('why', '')}",
                hint="Nothing was published. The run that started this write says why.",
            )
        return answer is not None

    def _is_young(self) -> bool:
        return self._clock.monotonic() - self._asked_at <= VALID_S

    def question(self) -> Mapping[str, Any] | None:
        """Return the other side: the next question without an answer, or None."""
        return self._get(f"question-{self._answered + 1}.json")

    def answer(self, why_not: str = "") -> None:
        """The other side: permit the commit of that question, or refuse it with a reason. After an error it stays the next question."""
        self._put(f"answer-{self._answered + 1}.json", {"granted": not why_not, "why": why_not})
        self._answered += 1

    def tell(self, facts: Mapping[str, Any]) -> None:
        """The writer: leave a note about the commit that it has made."""
        self._put(_DONE, facts)

    def note(self) -> Mapping[str, Any]:
        """Return the other side: the note that the writer left; empty if there is none."""
        return self._get(_DONE) or {}

    def close(self) -> None:
        """The other side: remove the folder. That takes permissions back, and whoever asks later gets no answer."""
        self._storage.delete_many([info.path for info in self._storage.list("")])

    def _put(self, name: str, facts: Mapping[str, Any]) -> None:
        self._storage.put(name, json.dumps(facts).encode())

    def _get(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = json.loads(self._storage.get(name))
        except ObjectNotFoundError:
            return None
        return found
