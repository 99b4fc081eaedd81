"""A gate in another process: a writer asks the process that started it whether its commit is still wanted. It is for a writer that cannot reach its
orchestrator, such as a Spark job on a cluster. Both processes see one folder of a storage, outside of the table. The writer writes its files, puts a
question into the folder, and waits for the answer before it takes the table's lock. Under the lock it checks once that the answer is still valid.
Without an answer nothing is published; so a writer whose orchestrator is gone never publishes.
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
"""For how many seconds an answer is valid, counted from its question. After this time the question is asked again."""
_DONE = "done.json"


class RemoteGate:
    """The folder in which one write asks for its commits.

    Args:
        storage: the folder; each write has its own.
        clock: the clock for waiting.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._asked = 0
        self._asked_at = 0.0
        self._answered = 0

    def ask(self, facts: Mapping[str, Any], timeout_s: float) -> None:
        """Ask whether to commit, and wait for the answer. Return if the answer is yes. The writer calls this without the table's lock.

        Args:
            facts: a description of the commit, as JSON.
            timeout_s: seconds to wait for an answer, or for a newer answer if the first one is no longer valid.

        Raises `CommitAbortedError` if the answer is no, or too late; then nothing may be published.
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

    def is_valid(self) -> bool:
        """Say whether the answer is still valid. The writer calls this under the table's lock; if False, it must ask again without the lock.

        Raises `CommitAbortedError` if the permission was withdrawn. Makes at most one storage call.
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
        """Say whether the latest question has an answer. Raises `CommitAbortedError` if the answer is no."""
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
        """Return the next unanswered question, or None. The other process calls this."""
        return self._get(f"question-{self._answered + 1}.json")

    def answer(self, why_not: str = "") -> None:
        """Permit the commit of the question, or refuse it with a reason.

        The other process calls this. After an error the question stays unanswered.
        """
        self._put(f"answer-{self._answered + 1}.json", {"granted": not why_not, "why": why_not})
        self._answered += 1

    def leave_note(self, facts: Mapping[str, Any]) -> None:
        """Leave a note about the completed commit. The writer calls this."""
        self._put(_DONE, facts)

    def note(self) -> Mapping[str, Any]:
        """Return the note of the writer; empty if there is none. The other process calls this."""
        return self._get(_DONE) or {}

    def close(self) -> None:
        """Remove the folder, which withdraws permissions; later questions get no answer. The other process calls this."""
        self._storage.delete_many([info.path for info in self._storage.list("")])

    def _put(self, name: str, facts: Mapping[str, Any]) -> None:
        self._storage.put(name, json.dumps(facts).encode())

    def _get(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = json.loads(self._storage.get(name))
        except ObjectNotFoundError:
            return None
        return found
