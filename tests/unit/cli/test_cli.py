"""The command `pyhudi`: exit codes, what it prints, what it never prints, and that it leaves tables as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.disk import contents
from support.golden import unpack
from support.tables import make, orders

import pyhudi_core as hudi
from pyhudi_core.cli import main


def run(*arguments: str) -> Result:
    found = CliRunner().invoke(main, arguments)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_a_healthy_table_ends_with_0(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    before = contents(location)
    found = run("check", location)
    assert found.exit_code == 0
    assert "nothing wrong was found" in found.output
    assert "3 files: 1 completed and 0 pending instants" in found.output
    assert contents(location) == before


def test_findings_end_with_1_and_say_what_to_do(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/timeline/notes.txt").touch()
    found = run("check", location)
    assert found.exit_code == 1
    assert "not_an_instant" in found.output
    assert "Readers ignore it" in " ".join(found.output.split())


@pytest.mark.parametrize("place", ["absent", "ftp://host/table", "s3://", ""])
def test_no_table_ends_with_2(tmp_path: Path, place: str) -> None:
    target = str(tmp_path / place) if place == "absent" else place
    for command in (("check",), ("timeline",)):
        assert run(*command, target).exit_code == 2
    assert run("commit-status", target, f"20260101000000000-{'0' * 32}").exit_code == 2
    assert not (tmp_path / "absent").exists()


def test_a_table_without_properties_is_examined_and_ends_with_1(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/hoodie.properties").unlink()
    found = run("check", location)
    assert found.exit_code == 1
    assert "no_table" in found.output


def test_the_report_as_json_is_the_whole_report_and_nothing_else(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    found = run("check", location, "--json", "--no-keys")
    report = json.loads(found.stdout)
    assert report["schema_version"] == 1
    assert report["ok"] is True
    assert [finding["area"] for finding in report["findings"]] == ["keys"]
    assert found.exit_code == 0


def test_information_is_shown_on_demand(location: str) -> None:
    unpack("hudi-1.2.0/cow_plain", location)
    shown = run("check", location, "--no-keys", "--all").output
    assert "findings for information only" not in shown
    assert "Keys were not compared" in " ".join(shown.split())
    assert "--all shows them" in run("check", location, "--no-keys").output


def test_names_that_are_markup_or_control_characters_are_shown_as_text(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/timeline/[red]x\x1b[31m\a").touch()
    output = run("check", location).output
    assert "\x1b" not in output and "\a" not in output
    assert "[red]x" in output


def test_an_incident_is_recorded_beside_the_report(location: str, tmp_path: Path) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    target = tmp_path / "incident.json"
    before = contents(location)
    assert run("check", location, "--record", str(target)).exit_code == 0
    body = json.loads(target.read_bytes())
    assert (body["format"], body["schema_version"]) == ("pyhudi-incident", 1)
    assert contents(location) == before


def test_an_incident_that_cannot_be_written_ends_with_2(location: str, tmp_path: Path) -> None:
    make(location)
    found = run("check", location, "--record", str(tmp_path / "no" / "folder" / "x.json"))
    assert found.exit_code == 2
    assert "Give another file." in found.output + found.stderr


def test_the_timeline_is_shown_newest_last(location: str) -> None:
    table = make(location)
    commits = [table.upsert(orders((1, "a", float(price)))) for price in range(3)]
    output = run("timeline", location, "--last", "2").output
    assert commits[0].instant not in output
    assert output.index(commits[1].instant) < output.index(commits[2].completion_time)
    assert "1 older" in output
    rows = json.loads(run("timeline", location, "--json", "--action", "commit").output)
    assert [row["completed"] for row in rows] == [commit.completion_time for commit in commits]
    assert json.loads(run("timeline", location, "--json", "--action", "clean").output) == []


def test_the_status_of_a_write_is_told_by_word_and_exit_code(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    assert (
        run("commit-status", location, commit.token).output,
        run("commit-status", location, commit.token).exit_code,
    ) == (
        "committed\n",
        0,
    )
    other = commit.token[:-32] + "0" * 32
    assert (run("commit-status", location, other).output, run("commit-status", location, other).exit_code) == (
        "not_committed\n",
        1,
    )
    assert run("commit-status", location, "nonsense").exit_code == 2


SECRET = "wJalrXUtnFEMI0000000SECRET"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--storage-option", f"secret_acess_key={SECRET}"),
        ("--storage-option", f"secret_access_key={SECRET}"),
        ("--storage-option", SECRET),
        ("--storage-option", f"={SECRET}"),
    ],
)
@pytest.mark.parametrize("place", ["s3://bucket/table", "/nowhere/at/all"])
def test_secrets_are_never_printed(arguments: tuple[str, ...], place: str) -> None:
    found = run("check", place, *arguments)
    assert found.exit_code == 2
    assert SECRET not in found.output + found.stderr


@pytest.mark.parametrize(
    "place",
    [
        f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket/t",
        f"https://user:{SECRET}@host/t",
        f"s3://b/t?X-Amz-Signature={SECRET}",
    ],
)
def test_credentials_in_a_location_are_masked(place: str) -> None:
    for command in ("check", "timeline"):
        found = run(command, place, "--storage-option", "endpoint_url=http://127.0.0.1:9", "--storage-option", "region=x",
                    "--storage-option", "access_key_id=k", "--storage-option", "secret_access_key=s")  # fmt: skip
        assert found.exit_code == 2
        assert SECRET not in found.output + found.stderr


def test_the_module_is_the_command(location: str) -> None:
    make(location)
    found = subprocess.run(
        [sys.executable, "-m", "pyhudi_core.cli", "check", location, "--json"], capture_output=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["ok"] is True


def test_help_names_every_command() -> None:
    output = run("--help").output
    assert all(word in output for word in ("check", "timeline", "commit-status"))
    assert "--record" in run("check", "--help").output


def test_a_table_of_hudi_is_looked_at_without_spark(tmp_path: Path) -> None:
    place = unpack("hudi-1.0.2/cow_archived", tmp_path / "t")
    assert run("check", place).exit_code == 0
    assert len(hudi.open_table(place).timeline)


def test_services_says_what_each_would_do_now_and_changes_nothing(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = contents(location)
    shown = json.loads(run("services", location, "--json").output)
    assert [row["service"] for row in shown] == list(table.services)
    assert not any(row["due"] for row in shown)
    assert all(row["why_not"] for row in shown)
    text = run("services", location).output
    assert "no write is pending" in text
    assert contents(location) == before


@pytest.mark.parametrize("command", ["clean", "cluster", "compact"])
def test_the_time_of_a_plan_without_execute_is_refused_before_anything_is_done(location: str, command: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before = contents(location)
    ended = CliRunner().invoke(main, [command, location, "--instant", "20260101000000000"])
    assert (ended.exit_code, "--execute" in ended.output) == (2, True)
    assert contents(location) == before


@pytest.mark.parametrize("command", ["compact", "cluster", "clean"])
def test_a_plan_that_is_not_pending_ends_with_1(location: str, command: str) -> None:
    make(location, table_type="mor").upsert(orders((1, "a", 1.0)))
    before = contents(location)
    found = run(command, location, "--execute", "--instant", "20260101000000000")
    assert found.exit_code == 1
    assert "is not pending" in " ".join(found.output.split())
    assert contents(location) == before
    assert run(command, location, "--execute").exit_code == 0  # nothing was named, and there is nothing to do


def test_an_option_without_a_value_is_refused(location: str) -> None:
    make(location)
    assert run("compact", location, "--option", "hoodie.compact.inline").exit_code == 2


def test_an_interrupt_ends_with_130_and_one_line(location: str) -> None:
    """In a process of its own, as a terminal interrupts it."""
    make(location, table_type="mor").upsert(orders((1, "a", 1.0)))
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs in the background ignores it
        "from pyhudi_core.services.compaction.compaction import Compaction\n"
        "from pyhudi_core.cli import main\n"
        "Compaction.plan = lambda self, **_: os.kill(os.getpid(), signal.SIGINT) or time.sleep(60)\n"
        f"main(['compact', {location!r}], prog_name='pyhudi')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 130
    assert ended.stderr.splitlines() == [
        "Interrupted. What had ended is done; the next writer or service removes what had not."
    ]
