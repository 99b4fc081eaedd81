"""Each option that Hudi's Spark jobs know is an option here, or is refused with what to do instead; what a hint names is there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi_core.errors import HudiError, InvalidOptionError, UnknownOptionError
from pyhudi_core.options import TableOptions, WriteOptions, every_option, render_docs
from pyhudi_core.options.not_here import NOT_HERE, instead_of
from pyhudi_core.options.registry import find_option

HUDIS = Path(__file__).with_name("hudi_options.txt").read_text().split()
"""The keys and alternative keys in the Spark bundles of Hudi 1.0.2 and 1.2.0."""
KNOWN = {key for option in every_option() for key in (option.key, *option.aliases)}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("hour", pa.string())])
_places = (f"memory://options-of-hudi-{number}" for number in count())


def create(options: dict[str, str], record_key: object = "id", partition_by: object = "day") -> pyhudi.HudiTable:
    return pyhudi.create_table(next(_places), SCHEMA, record_key, partition_by, options=options)


def test_every_option_of_hudi_is_accepted_or_refused_with_what_to_do_instead() -> None:
    assert len(HUDIS) > 700
    assert [key for key in HUDIS if key not in KNOWN and instead_of(key) is None] == []
    for key in {*HUDIS} - KNOWN:
        with pytest.raises(UnknownOptionError, match="does not apply here") as caught:
            create({key: "1"})
        assert caught.value.hint is not None
        assert caught.value.hint.startswith("Omit it: ")
        assert "Did you mean" not in caught.value.hint


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("partition_index_fields.enable", "aws glue create-partition-index"),
        ("partition_index_fields", "each sync keeps them"),
        ("resource_tags", "aws glue tag-resource"),
        ("database_name", r"hoodie\.datasource\.hive_sync\.database"),
        ("recreate_table_on_error", "never dropped"),
        ("partition_change_parallelism", "number of tasks"),
    ],
)
def test_an_option_of_hudis_tool_for_glue_is_refused_with_what_to_do_instead(key: str, advice: str) -> None:
    """These are in a bundle of Hudi for AWS only."""
    with pytest.raises(UnknownOptionError, match=rf"does not apply here.*{advice}"):
        create({f"hoodie.datasource.meta.sync.glue.{key}": "1"})


def test_no_pattern_is_for_nothing() -> None:
    unknown = [key.lower() for key in HUDIS if key not in KNOWN]
    of_other_bundles = ("primarykey", "precombinefield", "orderingfields", "hoodie.assume.date.partitioning",
                        "hoodie.allow.multi.write.on.same.instant", "hoodie.gcp.bigquery.sync.*", "hoodie.datahub.*",
                        *(each for _, found in NOT_HERE for each in found if ".sync.glue." in each))  # fmt: skip
    patterns = [each for _, found in NOT_HERE for each in found if each not in of_other_bundles]
    assert len(patterns) == len({*patterns})
    assert [each for each in patterns if not any(fnmatchcase(key, each) for key in unknown)] == []
    # A pattern that fits an option would answer to a misspelling of it.
    assert [(key, each) for key in KNOWN for each in patterns if fnmatchcase(key, each)] == []


@pytest.mark.parametrize("why", [why for why, _ in NOT_HERE], ids=[keys[0] for _, keys in NOT_HERE])
def test_what_a_hint_names_is_there(why: str) -> None:
    """Options with the values that the hint gives them, methods of a table, and names of the package."""
    for key, value in re.findall(
        r"((?:hoodie|pyhudi)\.[a-z0-9_.]*[a-z0-9_]|schema_evolution)(?:=(\w+))?(?![\w.]*\*)", why
    ):
        find_option(key)
        if value and key not in (
            "hoodie.table.keygenerator.type",
            "hoodie.write.lock.provider",
        ):  # they need further options
            WriteOptions.parse({key: value})
        elif value:
            TableOptions.parse({key: value})
    table = create({})
    for path in re.findall(r"\btable\.([a-z_.]+)(?=\(|[ ;,])", why):
        found: object = table
        for name in path.split("."):
            found = getattr(found, name)
    for name in re.findall(r"\bhudi\.([a-zA-Z_]+)", why):
        assert hasattr(pyhudi, name), name
    families = re.findall(r"hoodie\.[a-z.]+\.(?=\*)", why)
    assert [each for each in families if not any(key.startswith(each) for key in KNOWN)] == []


def test_all_options_that_cannot_be_used_are_told_at_once() -> None:
    with pytest.raises(UnknownOptionError, match="2 of the options cannot be used") as caught:
        create({"hoodie.metrics.on": "true", "hoodie.index.type": "SIMPLE", "hoodie.upsert.shuffle.parallelism": "2"})
    assert caught.value.hint is not None
    assert re.search(r"1\. .*hoodie\.metrics\.on.* 2\. .*hoodie\.upsert\.shuffle\.parallelism", caught.value.hint)


def test_the_page_of_options_has_every_pattern_and_what_to_do_instead() -> None:
    page = render_docs()
    assert [
        each for why, found in NOT_HERE for each in (*(f"`{key}`" for key in found), why[1:]) if each not in page
    ] == []


def _class(stem: str) -> str:
    return f"org.apache.hudi.keygen.{stem}KeyGenerator"


GENERATORS = [
    _class(f"{stem}{avro}") for stem in ("Simple", "Complex", "Nonpartitioned", "Custom") for avro in ("", "Avro")
]
COLUMNS = {
    "Simple": ("id", "day"),
    "Complex": (["id", "hour"], "day"),
    "Nonpartitioned": ("id", ()),
    "Custom": ("id", ["day", "hour"]),
}


@pytest.mark.parametrize(
    "key",
    ["hoodie.datasource.write.keygenerator.class", "hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type"],
)
@pytest.mark.parametrize("of", COLUMNS)
def test_a_key_generator_is_accepted_where_the_columns_have_it_and_refused_elsewhere(key: str, of: str) -> None:
    for given in GENERATORS:
        if of in given:
            assert create({key: given}, *COLUMNS[of]).config.keygenerator_type.value in (
                "SIMPLE",
                "COMPLEX",
                "NON_PARTITION",
                "CUSTOM",
            )
        else:
            with pytest.raises(InvalidOptionError, match="contradicts the table") as caught:
                create({key: given}, *COLUMNS[of])
            assert "Omit the option" in str(caught.value.hint)
    create({}, *COLUMNS[of])  # what the hint says
    for unknown in (_class("GlobalDelete"), "com.example.Mine"):
        with pytest.raises(InvalidOptionError, match="Possible: COMPLEX, CUSTOM, NON_PARTITION, SIMPLE, TIMESTAMP"):
            create({key: unknown}, *COLUMNS[of])


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.keygen.timebased.output.dateformat": "yyyy"},  # without hoodie.table.keygenerator.type=TIMESTAMP
        {"hoodie.datasource.write.payload.class": "com.example.Mine"},
        {"hoodie.write.record.merge.mode": "CUSTOM"},
        {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"},  # without ordering columns
        {"hoodie.datasource.write.record.merger.strategy": "00000000-0000-0000-0000-000000000000"},
        {"hoodie.datasource.write.record.merger.impls": "org.apache.hudi.DefaultSparkRecordMerger"},
        {"hoodie.datasource.write.precombine.field": "nothing"},
        {"hoodie.datasource.write.partitionpath.field": "hour"},  # partition_by says day
        {"hoodie.datasource.write.recordkey.field": "hour"},
        {"hoodie.datasource.write.drop.partition.columns": "true"},
        {"hoodie.table.base.file.format": "ORC"},
        {"hoodie.datasource.write.slash.separated.date.partitioning": "true"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_an_option_that_changes_what_is_stored_is_refused_before_anything_is_there(options: dict[str, str]) -> None:
    place = next(_places)
    with pytest.raises(HudiError) as caught:
        pyhudi.create_table(place, SCHEMA, "id", "day", options=options)
    assert caught.value.hint
    pyhudi.create_table(place, SCHEMA, "id", "day")  # nothing is in the way
    table = pyhudi.create_table(next(_places), SCHEMA, "id", "day")
    with pytest.raises(HudiError):
        pyhudi.open_table(table.location, options=options).insert(SCHEMA.empty_table())
    assert len(table.timeline.commits) == 0


def test_the_options_of_a_job_of_hudis_describe_a_new_table() -> None:
    table = pyhudi.create_table(
        next(_places),
        SCHEMA,
        options={
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "day:SIMPLE, hour:SIMPLE",
            "hoodie.datasource.write.precombine.field": "hour",
            "hoodie.datasource.write.storage.type": "MERGE_ON_READ",
            "hoodie.datasource.write.keygenerator.class": _class("Custom"),
            "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        },
    )
    config = table.config
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == (
        ("id",),
        ("day", "hour"),
        ("hour",),
    )
    assert (config.name, config.table_type.value) == ("orders", "MERGE_ON_READ")
