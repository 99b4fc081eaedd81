"""Errors of this package on their way from a Spark worker to the driver.

Spark passes on only the text of an exception; so a worker writes the error's class, message and fields into the text, and the driver makes the same
error from it. Spark's own processes write to disks, too: if the operating system refuses a call, Spark's text has the system's message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyhudi_core import errors
from pyhudi_core.errors import CommitAbortedError, ConfigError, HudiError, StorageError

_MARK = re.compile(r"pyhudi-error:(\{[^{}\n]*\}):end")
_SHOWN = re.compile(r"^pyhudi\.errors\.(\w+): (.+)$", re.MULTILINE)
"""Finds the last line of a traceback: an error of this package that a function of the user did not catch, such as a function for ``foreachBatch``."""
_DISK = {
    "No space left on device": "Make room on the disks of Spark's executors, or set `spark.local.dir` to a larger one",
    "Disk quota exceeded": "Raise the quota of Spark's user, or set `spark.local.dir` to another disk",
    "Too many open files": "Raise the limit of open files of Spark's executors (`ulimit -n`)",
}
_FIELDS = ("table", "path", "instant", "hint")


def to_text(error: HudiError) -> str:
    """Return one line that names the error."""
    body = {"kind": type(error).__name__, "message": error.message, **{name: getattr(error, name) for name in _FIELDS}}
    inner = json.dumps(body)[1:-1].replace("{", r"\u007b").replace("}", r"\u007d")
    return f"pyhudi-error:{{{inner}}}:end"


def from_text(text: str) -> HudiError | None:
    """Return the error that a worker's text names, or the error for a full disk of Spark itself; None for any other failure."""
    match = _MARK.search(text)
    if match is None:
        shown = _SHOWN.search(text)
        return _of_sparks_disk(text) if shown is None else _named(shown[1], shown[2], {})
    try:
        body = json.loads(match[1])
    except ValueError:
        return None
    return _named(str(body.get("kind")), str(body.get("message")), body)


def _named(name: str, message: str, body: Mapping[str, str | None]) -> HudiError | None:
    """Return an error of a class by name; None if there is no such class."""
    kind = getattr(errors, name, HudiError)
    if not (isinstance(kind, type) and issubclass(kind, HudiError)):
        return None
    error = kind.__new__(kind)
    HudiError.__init__(error, message, **{name: body.get(name) for name in _FIELDS})
    return error


def _of_sparks_disk(text: str) -> StorageError | None:
    for reason, hint in _DISK.items():
        line = next((line.strip() for line in text.splitlines() if reason in line), None)
        if line is not None:
            return StorageError(
                f"Spark could not write to a disk of its own: {line:.300}", hint=f"{hint}; then try again."
            )
    return None


@contextmanager
def raised_in_task() -> Iterator[None]:
    """Inside a worker: write errors of this package into the text that Spark hands on."""
    try:
        yield
    except HudiError as error:
        raise RuntimeError(to_text(error)) from error


@contextmanager
def noted() -> Iterator[None]:
    """Add the same text as a note to an error, inside a function that Spark calls at the driver, because Spark passes on an exception's text with
    its notes.

    The error keeps its type for callers of the function without Spark.
    """
    try:
        yield
    except HudiError as error:
        error.add_note(to_text(error))
        raise


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raise a task's own error at the driver, in place of Spark's wrapper."""
    try:
        yield
    except HudiError:
        raise
    except Exception as error:
        if lost := lost_session(error):
            raise lost from error
        own = from_text(str(error))
        if own is None:
            raise
        raise own from None


@contextmanager
def job_errors() -> Iterator[None]:
    """Raise other failures of a write's job at the driver, such as a failing source, as errors of this package."""
    with driver_errors():
        try:
            yield
        except Exception as error:
            if not _is_of_a_job(error):
                raise
            said = str(error)
            hint = next((hint for texts, hint in _HINTS.items() if any(text in said for text in texts)), _MEND)
            raise CommitAbortedError(
                f"Spark could not compute the rows: {_reason(said)}",
                hint=f"Nothing of them is in the table. {hint}, then write it again.",
            ) from error


_ENDED = ("ExecutorLostFailure", "MemoryError", "Connection reset", "Python worker exited unexpectedly")
"""Texts of failures in which a process had no memory left, or ended. The kernel or a manager of the cluster kills a process whose memory is full, and
Spark's text does not say so. Python, Arrow and Java each have an error whose name ends with ``MemoryError``.
"""
_MORE_MEMORY = (
    "The memory of an executor or of its Python process was full, or the process ended for another reason: see the log of the cluster's manager, and "
    "give more `spark.executor.memory` (the JVM), `spark.executor.memoryOverhead` (Python) or `spark.executor.pyspark.memory` (Python, if it is set)"
)
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
_HINTS = {
    _CANCELLED: "Somebody cancelled the job: by its tag or group, in Spark's UI, or Ctrl-C. See that it is wanted",
    _ENDED: _MORE_MEMORY,
}
_MEND = (
    "Mend what made the DataFrame fail (its own `count()` may not compute all columns: try "
    '`frame.write.format("noop").mode("overwrite").save()`)'
)


def _is_of_a_job(error: Exception) -> bool:
    """Say whether Spark raised the error, and the cause is neither this package, nor a disk of Spark, nor a lost session."""
    made = type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
    return made and lost_session(error) is None and from_text(str(error)) is None


_NAMED = re.compile(r"(?:^|[ :])(?:[\w$]+\.)*\w*(?:Error|Exception): .+|\[[A-Z_0-9.]+\] .+")
_TRACE = "Traceback (most recent call last)"


def _reason(text: str) -> str:
    """Return the line of Spark's text that has the reason: the first line after the calls of a traceback, or the innermost cause in Java."""
    before, traced, after = text.partition(_TRACE)
    own = after.removeprefix(":") if traced else before.rpartition("Caused by: ")[2]
    lines = [line.rstrip() for line in own.splitlines() if line.strip() and not (traced and line[0] in " \t")]
    named = lines if traced else filter(_NAMED.search, lines)
    return f"{next(iter(named), lines[0] if lines else 'no reason is given').strip():.500}"


def lost_session(error: BaseException) -> ConfigError | None:
    """Return the error for a session whose JVM or server no longer answers; None for another failure."""
    named, text = type(error).__name__, str(error)
    # In PySpark 3.5, an error without a Java exception and without a trace is an empty answer.
    empty = named == "Py4JError" and re.fullmatch(r"An error occurred while calling \S+", text) is not None
    if isinstance(error, ConnectionError) or named == "Py4JNetworkError" or empty:
        return ConfigError(
            "Spark's JVM does not answer: it has ended, or was killed",
            hint="PySpark cannot start another one in this process. Start the program (or the notebook's kernel) anew, with more spark.driver.memory "
            f"if the JVM ran out of it. {_AS_BEFORE}",
        )
    unanswered = named == "SparkConnectGrpcException" and "UNAVAILABLE" in text
    return lost_server() if named == "RetriesExceeded" or unanswered or "INVALID_HANDLE.SESSION" in text else None


_AS_BEFORE = "The table is as it was before the call, or has the commit whole: table.history() shows it."


def lost_server() -> ConfigError:
    """Return the error for a server of Spark Connect that does not answer, or has forgotten the session."""
    return ConfigError(
        "The server of Spark Connect does not answer, or has forgotten the session: it has ended, was started anew, or cannot be reached",
        hint="Check its address and its log. Then start another session: SparkSession.builder.remote(...).create(); and make its DataFrames anew. "
        + _AS_BEFORE,
    )
