"""A permit: a process that writes asks another one, which started it, whether its commit is still wanted.

For writes in a process that cannot see who wants them, such as a Spark job that an orchestrator started on a cluster. Both see one folder of a
storage, outside of the table. The writer puts a question there, just before its commit is decided, and waits for the answer. Without an answer
nothing is published; so a writer whose orchestrator is gone never publishes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.runtime import Clock
from pyhudi_core.storage.base import Storage

POLL_S = 0.5
VALID_S = 60.0
"""An answer that comes later than this after its question is not used: what it says may have changed."""
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
        self._answered = 0

    def ask(self, facts: Mapping[str, Any], timeout_s: float) -> None:
        """The writer: ask whether to commit, and return if it may.

        Args:
            facts: what would be committed, as JSON.
            timeout_s: seconds to wait for the answer.

        Raises `CommitAbortedError` if the answer is no, and if there is none in time; nothing may be published then.
        """
        self._asked += 1
        began = self._clock.monotonic()
        self._put(f"question-{self._asked}.json", facts)
        while (answer := self._get(f"answer-{self._asked}.json")) is None:
            if self._clock.monotonic() - began > timeout_s:
                raise CommitAbortedError(
                    f"Nobody permitted the commit within {timeout_s:g} s",
                    path=self._storage.location,
                    hint="Nothing was published. The run that started this write has probably ended; start a new one.",
                )
            self._clock.sleep(POLL_S)
        if not answer.get("granted"):
            raise CommitAbortedError(
                f"The commit was refused: {answer.get('why', '')}",
                hint="Nothing was published. The run that started this write says why.",
            )
        if self._clock.monotonic() - began > max(timeout_s, VALID_S):
            self.ask(facts, timeout_s)

    def question(self) -> Mapping[str, Any] | None:
        """The other side: the next question without an answer, or None."""
        return self._get(f"question-{self._answered + 1}.json")

    def answer(self, why_not: str = "") -> None:
        """The other side: permit the commit of that question, or refuse it with a reason."""
        self._answered += 1
        self._put(f"answer-{self._answered}.json", {"granted": not why_not, "why": why_not})

    def tell(self, facts: Mapping[str, Any]) -> None:
        """The writer: leave a note about the commit that it has made."""
        self._put(_DONE, facts)

    def told(self) -> Mapping[str, Any]:
        """The other side: the note of the writer; empty if there is none."""
        return self._get(_DONE) or {}

    def close(self) -> None:
        """The other side: remove the folder. Whoever asks later gets no answer."""
        self._storage.delete_many([info.path for info in self._storage.list("")])

    def _put(self, name: str, facts: Mapping[str, Any]) -> None:
        self._storage.put(name, json.dumps(facts).encode())

    def _get(self, name: str) -> Mapping[str, Any] | None:
        if self._storage.head(name) is None:
            return None
        found: Mapping[str, Any] = json.loads(self._storage.get(name))
        return found
