"""CALL: all procedures of Hudi 1.2 are in the table, and those that are carried out do what the service or the read does."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi as hudi
from pyhudi_core.errors import InvalidOptionError
from pyhudi_core.statements.procedures import PROCEDURES

ROOT = Path(__file__).resolve().parents[3]
OF_HUDI = [
    "archive_commits",
    "cleanup_audit_lock",
    "commits_compare",
    "copy_to_table",
    "copy_to_temp_view",
    "create_metadata_table",
    "create_savepoint",
    "delete_marker",
    "delete_metadata_table",
    "delete_savepoint",
    "downgrade_table",
    "drop_partition",
    "export_instants",
    "hdfs_parquet_import",
    "help",
    "hive_sync",
    "init_metadata_table",
    "partition_bucket_index_manager",
    "repair_add_partition_meta",
    "repair_corrupted_clean_files",
    "repair_deduplicate",
    "repair_migrate_partition_meta",
    "repair_overwrite_hoodie_props",
    "rollback_to_instant",
    "rollback_to_savepoint",
    "run_bootstrap",
    "run_clean",
    "run_clustering",
    "run_compaction",
    "run_rollback_inflight_tableservice",
    "run_ttl",
    "set_audit_lock",
    "show_archived_commits",
    "show_archived_commits_metadata",
    "show_audit_lock_status",
    "show_bootstrap_mapping",
    "show_bootstrap_partitions",
    "show_clean_plans",
    "show_cleans",
    "show_cleans_metadata",
    "show_clustering",
    "show_metadata_column_stats_overlap",
    "show_commit_extra_metadata",
    "show_commit_files",
    "show_commit_partitions",
    "show_commit_write_stats",
    "show_commits",
    "show_commits_metadata",
    "show_compaction",
    "show_file_status",
    "show_fs_path_detail",
    "show_fsview_all",
    "show_fsview_latest",
    "show_invalid_parquet",
    "show_logfile_metadata",
    "show_logfile_records",
    "show_metadata_table_column_stats",
    "show_metadata_table_files",
    "show_metadata_table_partitions",
    "show_metadata_table_stats",
    "show_rollback_detail",
    "show_rollbacks",
    "show_savepoints",
    "show_table_properties",
    "show_timeline",
    "stats_file_sizes",
    "stats_wa",
    "sync_validate",
    "truncate_table",
    "upgrade_table",
    "validate_audit_lock",
    "validate_metadata_table_files",
]
"""The names in Hudi's own list (HoodieProcedures)."""
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])


@pytest.fixture(scope="module", params=("copy_on_write", "merge_on_read"))
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> hudi.HudiTable:
    made = hudi.create_table(
        f"{tmp_path_factory.mktemp('calls')}/orders", SCHEMA, "id", "day", table_type=request.param
    )
    made.insert(pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"], "v": [1, 2, 3]}, SCHEMA))
    made.update({"v": "v + 1"}, "day = 'a'", extra_metadata={"why": "test"})
    made.update({"v": "v + 1"}, "day = 'a'")
    return made


def call(table: hudi.HudiTable, text: str) -> list[dict[str, object]]:
    return hudi.sql(f"CALL {text}", {"o": table}).to_pylist()


def test_every_procedure_of_hudi_is_here_or_has_a_reason_and_the_page_says_so() -> None:
    assert sorted(PROCEDURES) == sorted(OF_HUDI)
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", page, re.MULTILINE))
    assert said == {name: "yes" if found.carry_out is not None else "no" for name, found in PROCEDURES.items()}
    assert all(found.instead or found.columns for found in PROCEDURES.values())


@pytest.mark.parametrize("name", sorted(name for name, found in PROCEDURES.items() if found.carry_out is None))
def test_a_procedure_that_is_refused_says_what_to_do(table: hudi.HudiTable, name: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        call(table, f"{name}(table => 'o')")
    assert caught.value.hint == PROCEDURES[name].instead


@pytest.mark.parametrize(
    "name",
    sorted(
        name for name in PROCEDURES if name.startswith(("show_", "stats_", "validate_")) and PROCEDURES[name].carry_out
    ),
)
def test_a_procedure_that_shows_has_the_columns_that_it_names(table: hudi.HudiTable, name: str) -> None:
    newest = table.timeline.commits[-1].requested_time
    values = {"table": "o", "path": table.location, "instant_time": newest}
    needed = [one for one in PROCEDURES[name].arguments if one.required or one.name == "table"]
    arguments = ", ".join(f"{one.name} => '{values[one.name]}'" for one in needed)
    found = hudi.sql(f"CALL {name}({arguments})", {"o": table})
    assert found.schema == PROCEDURES[name].schema
    limited = hudi.sql(f"CALL system.{name}({arguments}, limit => 1)", {"o": table})
    assert limited.num_rows == min(1, found.num_rows)


def test_commits_are_shown_with_their_counts(table: hudi.HudiTable) -> None:
    newest, middle, first = call(table, "show_commits('o')")
    assert (first["total_records_written"], newest["total_update_records_written"]) == (3, 2)
    assert middle["commit_time"] < newest["commit_time"]
    assert call(table, "show_commits(table => 'o', filter => 'total_update_records_written = 0', limit => 5)") == [
        first
    ]
    assert [
        row["metadata_value"] for row in call(table, "show_commit_extra_metadata(table => 'o', metadata_key => 'why')")
    ] == ["test"]
    files = call(table, f"show_commit_files(table => 'o', instant_time => {newest['commit_time']})")
    assert [row["partition_path"] for row in files] == ["day=a"]
    assert call(table, f"show_commits(path => '{table.location}', limit => 1)") == [newest]
    assert call(table, "stats_wa(table => 'o')")[-1]["total_upserted"] == 7
    assert len(call(table, "show_timeline(table => 'o')")) == len(table.timeline)


def test_files_are_counted_below_a_path_or_below_each_of_its_folders(table: hudi.HudiTable) -> None:
    [whole] = call(table, f"show_fs_path_detail(path => '{table.location}')")
    parts = call(table, f"show_fs_path_detail(path => '{table.location}', is_sub => true)")
    assert {Path(str(row["storage_path"])).name for row in parts} == {".hoodie", "day=a", "day=b"}
    assert whole["storage_path"] == table.location
    assert whole["file_num"] == sum(int(str(row["file_num"])) for row in parts)


def test_the_metadata_table_and_the_files_agree(table: hudi.HudiTable) -> None:
    assert call(table, "validate_metadata_table_files(table => 'o')") == []
    listed = call(table, "show_metadata_table_files(table => 'o', partition => 'day=b')")
    assert [row["size"] for row in listed] == [
        row["data_file_size"] for row in call(table, "show_fsview_latest(table => 'o', partition_path => 'day=b')")
    ]


def test_services_run_as_hudi_calls_them(tmp_path: Path) -> None:
    table = hudi.create_table(
        f"{tmp_path}/orders",
        SCHEMA,
        "id",
        "day",
        table_type="merge_on_read",
        options={"hoodie.metadata.enable": "false"},
    )
    rows = pa.table({"id": [1, 2], "day": ["a", "b"], "v": [1, 2]}, SCHEMA)
    table.insert(rows)
    table.update({"v": "v + 1"})
    [planned] = call(table, "run_compaction(op => 'schedule', table => 'o')")
    assert call(table, "show_compaction(table => 'o')")[0]["state"] == "REQUESTED"
    [done] = call(table, f"run_compaction('execute', 'o', timestamp => '{planned['timestamp']}')")
    assert (done["state"], done["operation_size"]) == ("COMPLETED", 2)
    assert [row["state"] for row in call(table, "show_compaction(table => 'o')")] == ["COMPLETED", "COMPLETED"]
    table.update({"v": "v + 1"})
    assert len(call(table, "run_compaction(op => 'run', table => 'o')")) == 1
    [clean] = call(
        table, "run_clean(table => 'o', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)"
    )
    assert clean["total_files_deleted"] > 0
    assert call(table, "show_cleans(table => 'o')")[0]["start_clean_time"] == clean["start_clean_time"]
    assert (
        call(table, "run_clustering(table => 'o', order => 'v', show_involved_partition => true)")[0][
            "involved_partitions"
        ]
        == "day=a,day=b"
    )
    newest = table.timeline.commits[-1].requested_time
    assert call(table, f"create_savepoint(table => 'o', commit_time => '{newest}', comments => 'now')") == [
        {"create_savepoint_result": True}
    ]
    assert call(table, "show_savepoints(table => 'o')") == [{"savepoint_time": newest}]
    call(table, "drop_partition(table => 'o', partition => 'day=a')")
    assert table.count() == 1
    assert call(table, f"rollback_to_savepoint(table => 'o', instant_time => '{newest}')") == [
        {"rollback_savepoint_result": True}
    ]
    assert table.count() == 2
    assert call(table, f"delete_savepoint(table => 'o', instant_time => '{newest}')") == [
        {"delete_savepoint_result": True}
    ]
    undone = table.update({"v": "0"})
    assert call(table, f"rollback_to_instant(table => 'o', instant_time => '{undone.instant}')") == [
        {"rollback_result": True}
    ]
    assert call(table, "create_metadata_table(table => 'o')")
    assert call(table, "delete_metadata_table(table => 'o')")
    assert call(
        table,
        "archive_commits(table => 'o', min_commits => 2, max_commits => 3, retain_commits => 1, enable_metadata => false)",
    ) == [{"result": 0}]
    assert call(table, "truncate_table(table => 'o')") == [{"result": True}]
    assert table.count() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("show_comits(table => 'o')", "Did you mean show_commits?"),
        ("show_commits(tabel => 'o')", "no argument 'tabel'"),
        ("show_commits(table => 'o', table => 'o')", "twice"),
        ("show_commits(table => 'o', limit => 'x')", "takes a whole number"),
        ("show_commits(table => 'o') x", "at character 33"),
        ("show_commits(limit => 3)", "needs a table"),
        ("show_commit_files(table => 'o')", "lacks instant_time"),
        ("show_commits(table => 'p')", "'p', which is not known"),
        ("show_commits(table => 'o', filter => 'nope = 1')", "'nope'"),
        ("run_compaction(op => 'sometime', table => 'o')", "'sometime' is unknown"),
        ("rollback_to_savepoint(table => 'o', instant_time => '20200101000000000')", "is no savepoint"),
        ("show_commit_files(table => 'o', instant_time => '1')", "No commit"),
        ("init_metadata_table(table => 'o', read_only => true)", "read_only => True is not carried out"),
        ("show_cleans(table => 'o', show_archived => true)", "is not carried out"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_done(table: hudi.HudiTable, text: str, said: str) -> None:
    before = len(table.timeline)
    with pytest.raises(hudi.HudiError) as caught:
        call(table, text)
    assert said in f"{caught.value} {caught.value.hint}"
    assert len(table.timeline) == before
