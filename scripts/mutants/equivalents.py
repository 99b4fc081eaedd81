"""Mutants that no test can catch, because the program does the same: the module, the line, what it is changed to, and the reason.

``python -m scripts.mutants --show KEY`` shows one. A test fails for an entry whose line is no longer in its module.
"""

_PARTS = "keys are compared in other parts, with the same result; only the memory differs"
_MADE_UP = (
    "a value of rows that are made up to compare mergers: any will do, as long as equal numbers give equal values"
)
_GROUPS = "a bound of memory: rows may be put into row groups a little earlier or later, and read back the same"
_BOUND = (
    "a bound of memory: what is a little larger is refused as well, by the same check; the number itself is no promise"
)
_CACHE = "the size of a cache: what it does not hold is made again, with the same result"
_DECODED = "where items may end is only guessed here: their values are decoded up to there, and what does not fit is left to fastavro"
_DRAWING = "a measure of a drawing: a pixel more or less shows the same"
_SHOWN = "how much of another tool's text a message shows; one character more or less says the same"

EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("pyhudi_core/conflicts/key_overlap.py", "HASHES = 4 << 20", "HASHES = 4 << 19"): _PARTS,
    ("pyhudi_core/conflicts/key_overlap.py", "waiting, count = [], 0", "waiting, count = [], -1"): _PARTS,
    ("pyhudi_core/formats/base_file/orc.py", "MAX_STRIPE_ROWS = 1 << 24", "MAX_STRIPE_ROWS = 1 << 25"): _BOUND,
    ("pyhudi_core/formats/log/contents.py", "_MOST_SCHEMA_BYTES = 16 << 20", "_MOST_SCHEMA_BYTES = 17 << 20"): _BOUND,
    ("pyhudi_core/conflicts/precedence.py", "_LARGEST = 4 << 20", "_LARGEST = 5 << 20"): _BOUND,
    ("pyhudi_core/merge/merger_contract.py", "_STEP = 0x9E3779B97F4A7C15", "_STEP = 11400714819323198486"): _MADE_UP,
    (
        "pyhudi_core/formats/base_file/footer.py",
        "if len(tail) < 2 * _MARK_BYTES or tail[-4:] != _MAGIC:",
        "if len(tail) < 1 * _MARK_BYTES or tail[-4:] != _MAGIC:",
    ): "files of 8 to 15 bytes are refused by the next check, or by the Parquet reader; only the words differ",
    (
        "pyhudi_core/formats/hfile/reader.py",
        "if len(payload) < 8:",
        "if len(payload) < 7:",
    ): "7 bytes hold no entry, and the checks of its numbers refuse it or find none; only the words differ",
    (
        "pyhudi_dagster/partition_values.py",
        "_FAR = datetime(2200, 1, 1, tzinfo=UTC)",
        "_FAR = datetime(2200, 1, 2, tzinfo=UTC)",
    ): "a time that is later than all windows that anybody has",
    (
        "pyhudi_dagster/partition_values.py",
        "_FAR = datetime(2200, 1, 1, tzinfo=UTC)",
        "_FAR = datetime( 2199, 1, 1, tzinfo=UTC)",
    ): "a time that is later than all windows that anybody has",
    (
        "pyhudi_dagster/timeline_view.py",
        "_WIDTH, _ROW, _LABELS, _TOP = 760, 16, 250, 22",
        "_WIDTH, _ROW, _LABELS, _TOP = 760, 16, 250, 23",
    ): _DRAWING,
    (
        "pyhudi_dagster/timeline_view.py",
        """f'font-family="monospace" font-size="11" fill="#555" stroke-width="{_ROW - 4}">'""",
        """f'font-family="monospace" font-size="11" fill="#555" stroke-width="{_ROW - 3}">'""",
    ): _DRAWING,
    ("pyhudi_core/formats/base_file/writer.py", "_MAX_EXPANSION = 8", "_MAX_EXPANSION = 7"): _GROUPS,
    (
        "pyhudi_core/formats/base_file/writer.py",
        "self._ratio = max((self._stream.tell() - before) / max(self._pending_bytes, 1), 1e-3)",
        "self._ratio = max((self._stream.tell() - before) / max(self._pending_bytes, 2), 1e-3)",
    ): "there are waiting rows, and the first of them has more than two bytes",
    (
        "pyhudi_core/formats/avro/decimals.py",
        "if size > _WIDTH:",
        "if size >= _WIDTH:",
    ): "a number of 16 bytes has none in front of its last 16, and these are all of it",
    (
        "pyhudi_core/formats/key_hash.py",
        'order = np.argsort(keys.lengths.astype(np.uint16 if high < 1 << 16 else np.int64), kind="stable")',
        'order = np.argsort(keys.lengths.astype(np.uint16 if high < 0 << 16 else np.int64), kind="stable")',
    ): "lengths are sorted the same in any type that holds them; only the time differs",
    (
        "pyhudi_core/formats/log/reader.py",
        'if struct.unpack(">q", self._read(content_offset - 8, 8))[0] != end - content_offset:',
        'if struct.unpack(">q", self._read(content_offset - 8, 8))[ -1] != end - content_offset:',
    ): "the first of one value is the last one",
    (
        "pyhudi_dagster/timeline_view.py",
        "longest = max([span for span in seconds if span is not None], default=0.0) or 1.0",
        "longest = max([span for span in seconds if span is not None], default= 1.0) or 1.0",
    ): "0.0 becomes 1.0 as well",
    (
        "pyhudi_core/merge/merger_contract.py",
        "return dt.datetime(2024, 2, 28, 23, 59, 57 - number, tzinfo=zone)",
        "return dt.datetime(2024, 2, 28, 23, 58, 57 - number, tzinfo=zone)",
    ): _MADE_UP,
    (
        "pyhudi_core/merge/merger_contract.py",
        "return Decimal(number).scaleb(-min(kind.scale, 1)) if kind.scale >= 0 else Decimal(0)",
        "return Decimal(number).scaleb(-min(kind.scale, 1)) if kind.scale >= 0 else Decimal( 1)",
    ): _MADE_UP,
    (
        "pyhudi_core/formats/base_file/parquet_pages.py",
        "if isinstance(dictionary, int) and 0 < dictionary < start:",
        "if isinstance(dictionary, int) and 0 < dictionary <= start:",
    ): "a dictionary that begins where the data begin is at the same place",
    (
        "pyhudi_core/formats/log/reader.py",
        "_CHUNK = 1 << 20",
        "_CHUNK = 2 << 20",
    ): "how many bytes are searched at once; the same places are found",
    (
        "pyhudi_core/formats/log/contents.py",
        "@lru_cache(maxsize=1)",
        "@lru_cache(maxsize= 0)",
    ): _CACHE,
    (
        "pyhudi_core/formats/avro/container.py",
        "@lru_cache(maxsize=64)",
        "@lru_cache(maxsize= 63)",
    ): _CACHE,
    (
        "pyhudi_core/formats/log/delete_items.py",
        "fits = (value & 1 == 0) & (length >= 0) & (length <= size - behind)",
        "fits = (value & 0 == 0) & (length >= 0) & (length <= size - behind)",
    ): _DECODED,
    (
        "pyhudi_core/formats/log/delete_items.py",
        "listed = np.flatnonzero((present == _PRESENT) & (written & 1 == 0) & (written <= 2 * _MOST_ORDERINGS))",
        "listed = np.flatnonzero((present == _PRESENT) & (written & 0 == 0) & (written <= 2 * _MOST_ORDERINGS))",
    ): _DECODED,
    (
        "pyhudi_core/formats/log/changes.py",
        "_BLOCK_BYTES = 32 << 20",
        "_BLOCK_BYTES = 33 << 20",
    ): _GROUPS,
    (
        "pyhudi_core/formats/base_file/writer.py",
        "row_group_rows: int = 200_000,",
        "row_group_rows: int = 200001,",
    ): _GROUPS,
    (
        "pyhudi_core/formats/hfile/reader.py",
        "size += len(payloads[-1])",
        "size += len(payloads[- 0])",
    ): _PARTS,
    (
        "pyhudi_core/formats/base_file/orc_tail.py",
        "if offset < 0 or length < 0 or offset + length > size:",
        "if offset <= 0 or length < 0 or offset + length > size:",
    ): "an ORC file begins with three bytes of its name, so no part of its tail is at its beginning",
    (
        "pyhudi_core/formats/avro/columns.py",
        "_MAX_ROUNDS = 10_000",
        "_MAX_ROUNDS = 9999",
    ): "a longer array is left to fastavro, which gives the same values; only the time differs",
    (
        "pyhudi_core/formats/log/reader.py",
        "_MOST_HEADERS = 1024",
        "_MOST_HEADERS = 1025",
    ): _BOUND,
    (
        "pyhudi_core/formats/hfile/entries.py",
        "pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64) for column in (keys, values)",
        "pc.binary_length(column).to_numpy(zero_copy_only=True).astype(np.int64) for column in (keys, values)",
    ): "numbers without nulls are taken without a copy in both cases",
    (
        "pyhudi_core/lock/zookeeper.py",
        """return f"{content[:100].decode(errors='replace') or 'an unknown process'} (written by another tool)\"""",
        """return f"{content[: 101].decode(errors='replace') or 'an unknown process'} (written by another tool)\"""",
    ): _SHOWN,
    (
        "pyhudi_core/lock/hive_metastore.py",
        'return f"{entry.user}@{entry.hostname} (written by another tool)"[:300]',
        'return f"{entry.user}@{entry.hostname} (written by another tool)"[: 299]',
    ): _SHOWN,
    (
        "pyhudi_core/lock/server.py",
        "patience.wait(1.0)",
        "patience.wait( 2.0)",
    ): "a release waits twice at most, for less than 51 and 101 ms, so neither bound is reached",
    (
        "pyhudi_core/metadata_table/listing.py",
        'self._files[path] = tuple(ObjectInfo(prefix + name, size, 0, "") for name, size in sorted(files.items()))',
        'self._files[path] = tuple(ObjectInfo(prefix + name, size, 1, "") for name, size in sorted(files.items()))',
    ): "the metadata table knows no times of files; nobody reads this one",
    (
        "pyhudi_core/lock/sql.py",
        'found = error.args[0] if error.args else ""',
        'found = error.args[ -1] if error.args else ""',
    ): "a driver's error with a mapping has it alone; others are told by their text, whatever their arguments are",
    (
        "pyhudi_dagster/partitions.py",
        'why = "there is no such time zone" if isinstance(error, OSError) else error.args[0] if error.args else error',
        'why = "there is no such time zone" if isinstance(error, OSError) else error.args[ -1] if error.args else error',
    ): "the errors of Dagster, strptime and zoneinfo have one argument, the message",
    (
        "pyhudi_dagster/multi_step.py",
        'outputs[0].step.log.info("nothing has changed in %s since the last commits", ", ".join(changes.given))',
        'outputs[ -1].step.log.info("nothing has changed in %s since the last commits", ", ".join(changes.given))',
    ): "all outputs of a step have its one log",
    (
        "pyhudi_dagster/timeline_cursor.py",
        "float(looked) if isinstance(looked, int | float) else 0.0,",
        "float(looked) if isinstance(looked, int | float) else 1.0,",
    ): "for a cursor that no sensor writes: a table that was last read in 1970, at either second, is read first",
    (
        "pyhudi_core/metadata_table/records.py",
        'digits = file_id[:36].replace("-", "")',
        'digits = file_id[: 37].replace("-", "")',
    ): "the 37th character is a hyphen, which is taken out, or the number behind the UUID is refused",
    (
        "pyhudi_core/metadata_table/records.py",
        "rest, place = np.divmod(rest, max(1, len(column.dictionary)))",
        "rest, place = np.divmod(rest, max( 0, len(column.dictionary)))",
    ): "only a column without values has an empty dictionary, and then there is nothing to divide",
    (
        "pyhudi_core/merge/late_rows.py",
        "into, entries = 0, None",
        "into, entries = -1, None",
    ): "a part that is cut into no parts, or into -1, has none",
    (
        "pyhudi_core/merge/delete_orderings.py",
        "at = np.full(len(compared), -1, np.int64)",
        "at = np.full(len(compared), - 2, np.int64)",
    ): "all places below 0 are masked",
    (
        "pyhudi_core/merge/merger_contract.py",
        'return [0.0, 1.0, 2.5, -1.0, float("nan")][number]',
        'return [ -1.0, 1.0, 2.5, -1.0, float("nan")][number]',
    ): _MADE_UP,
    (
        "pyhudi_core/merge/merger_contract.py",
        "return dt.datetime(2024, 2, 28, 23, 59, 57 - number, tzinfo=zone)",
        "return dt.datetime(2024, 2, 29, 23, 59, 57 - number, tzinfo=zone)",
    ): _MADE_UP,
    (
        "pyhudi_core/merge/merger_contract.py",
        "return Decimal(number).scaleb(-min(kind.scale, 1)) if kind.scale >= 0 else Decimal(0)",
        "return Decimal(number).scaleb(-min(kind.scale, 2)) if kind.scale >= 0 else Decimal(0)",
    ): _MADE_UP,
}


def equivalent(module: str, line: str, changed: str) -> str:
    """Why this change of a line is equivalent, or nothing."""
    return EQUIVALENT.get((module, line, changed), "")
