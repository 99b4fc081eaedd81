"""Bad input of every command of `pyhudi` is refused before anything is written: with exit code 2, by an error that says what to do, and the bytes stay.

The tests walk the tree of commands. So a new command, and a new parameter of one, fails until `BAD` has its bad input.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest
from support.commands import COMMANDS, RUNS, is_an_answer, places, run
from support.disk import contents
from support.tables import make, orders

TABLE = "--storage-option fsync=false"
NEW = "--column id:int64 --record-key id"
ROWS = "{source}/rows.csv --record-key id"
BAD = {
    "bootstrap": """
        {none} {new} --record-key id
        {folder} {new} --record-key id
        {file} {new} --record-key id
        {damaged} {new} --record-key id
        {source} {file} --record-key id
        {source} {table} --record-key day
        {source} {new} --record-key prise
        {source} {new} --record-key id --partition-by prise
        {source} {new} --record-key id --ordering prise
        {source} {new} --record-key id --mode odd
        {source} {new} --record-key id --table-type odd
        {source} {new} --record-key id --name a/b
        {source} {new} --record-key id --chunk-bytes 0
        {source} {new} --record-key id --source-option odd
        {source} {new} --record-key id --source-option no_such=1""",
    "check": """
        {table} --key-rows 0
        {table} --record {folder}
        {table} --record {none}/incident
        {table} --columns prise""",
    "clean": """
        {table} --instant 1
        {table} --execute --instant ../../x
        {table} --plan --schedule
        {table} --option hoodie.clean.commits.retained=many
        {table} --option hoodie.clean.commits.retained=-1""",
    "cluster": """
        {table} --execute --instant now
        {table} --cancel ../x
        {table} --cancel {newest} --plan
        {table} --option hoodie.clustering.plan.strategy.sort.columns=prise""",
    "commit": """
        1: {table} yesterday
        {table} {newest} --columns prise""",
    "commit-status": "{table} mine",
    "compact": """
        {table} --execute --instant now
        {table} --option hoodie.compaction.strategy=odd""",
    "completion": "",
    "count": """
        {table} --where 'prise = 1'
        {table} --where 'id = = 1'
        {table} --where "id = 'much'"
        {table} --where ''
        {table} --where 'id = 1' --zone Europe
        {table} --as-of yesterday""",
    "downgrade": """
        {table} --to 7
        {table} --to seven""",
    "drop": """
        {none}
        {folder}
        {none} --plan""",
    "erase": """
        {table} --key x
        {table} --key 99999999999999999999999
        {table} --key 1 --plan --verify""",
    "expire": """
        {table} --days 0
        {table} --option hoodie.partition.ttl.management.strategy.type=odd""",
    "export": """
        {table} {new}
        {table} {new}.odd
        {table} {new}.csv --column prise
        {table} {new}.csv --where 'prise = 1'
        {table} {new}.csv --where 'id = 1' --zone Europe
        {table} {new}.csv --as-of yesterday
        {table} {none}/rows.csv --format odd
        {table} {source}/rows.csv""",
    "head": """
        {table} --rows -1
        {table} --column prise
        {table} --columns id,prise
        {table} --columns ,
        {table} --where 'price > '
        {table} --where 'id = 1' --zone Nowhere/City
        {table} --as-of yesterday
        {table} --csv --json""",
    "help": "",
    "history": "{table} --columns prise",
    "hold": """
        {table} create
        {table} create --hours -1
        {table} create --hours nan
        {table} create --hours 1e300
        {table} create --hours 1 --as-of yesterday
        {table} create --hours 1 --name mine
        {table} list --hours 1
        {table} list --as-of yesterday
        {table} list --comment mine
        {table} list --columns prise
        {table} create --hours 1 --columns name
        {table} delete
        {table} delete --name ../../x
        {table} create --hours 1 --if-exists""",
    "catalog-sync": """
        {table} --mode jdbc
        {table} --uris http://here
        {table} --database sales.orders
        {table} --name 'my orders'
        {table} --uris thrift://127.0.0.1:1
        {table} --option hoodie.datasource.hive_sync.batch_num=0""",
    "iceberg": """
        {table} --catalog prod
        {table} --name sales.orders
        {table} --catalog prod --name sales.orders --plan
        {table} --option pyhudi.iceberg.snapshots=0""",
    "import": """
        {new} {none}
        {new} {folder}
        {new} {damaged}/cut.parquet
        {new} {damaged}/typed.csv --record-key id --type price=double
        {new} {damaged}/empty.csv
        {new} {damaged}/ragged.csv
        {new} {source}/rows.csv --record-key prise
        {new} {source}/rows.csv --record-key id --partition-by prise
        {new} {source}/rows.csv --record-key id --ordering prise
        {new} {source}/rows.csv --record-key id --table-type odd
        {new} {source}/rows.csv --record-key id --name ''
        {new} {source}/rows.csv --record-key id --delimiter ab
        {new} {source}/rows.csv --record-key id --type price=odd
        {new} {source}/rows.csv --record-key id --type prise=int64
        {new} {source}/rows.csv --record-key id --type day=int64
        {new} {source}/rows.csv --record-key id --null 1
        {new} {source}/rows.csv {damaged}/cut.parquet --record-key id
        {table} {damaged}/typed.csv
        {table} {damaged}/semicolons.csv
        {table} {damaged}/no_key.csv
        {table} {source}/rows.csv {damaged}/cut.parquet
        {table} {source}/rows.csv --record-key day
        {table} {source}/rows.csv --partition-by id
        {table} {source}/rows.csv --ordering price
        {table} {source}/rows.csv --table-type copy_on_write
        {table} {source}/rows.csv --name other
        {file} {source}/rows.csv
        {source}/rows.csv {source}/rows.csv""",
    "index": """
        {table} create
        {table} create nothing
        {table} create by_x --column prise
        {table} create by_x --column day --using odd
        {table} create by_x --column day --using column_stats --index-option expr=odd
        {table} create by_x --column day --using column_stats --index-option odd
        {table} create 'a b' --column day
        {table} create a b --column day
        {table} list by_x
        {table} list --columns prise
        {table} execute now
        {table} execute {newest} {newest}
        {table} cancel ../x
        {table} drop by_x
        {table} drop by_x --column day""",
    "init": f"""
        {{new}} --column id
        {{new}} --column id:odd
        {{new}} --column :int64
        {{new}} --column id:int64 --column id:string
        {{new}} --column id:double --record-key id
        {{new}} {NEW} --record-key prise
        {{new}} {NEW} --partition-by prise
        {{new}} {NEW} --ordering prise
        {{new}} {NEW} --table-type odd
        {{new}} {NEW} --name ''
        {{new}} {NEW} --name a/b
        {{new}} {NEW} --option hoodie.index.type=odd
        {{table}} {NEW}
        {{file}} {NEW}""",
    "inspect": """
        {table}
        {table} files --columns prise
        {table} files --as-of yesterday
        {table} files --last 5
        {table} commits --as-of {newest}
        {table} commit-files
        {table} commit-files --instant now
        {table} file-group
        {table} file-group --file-id nothing
        {table} files --csv --json""",
    "key-history": """
        {table} x
        {table} 99999999999999999999999
        {table} 1 --columns prise
        {table} 1 --columns ,""",
    "log-compact": """
        {table} --execute --instant now
        {table} --option hoodie.log.compaction.blocks.threshold=x""",
    "metadata": """
        {table} create --index odd
        {table} drop --index column_stats
        {table} rebuild --index odd""",
    "recover": """
        {table}
        {folder} --table-type odd
        {folder} --leave-out x
        {folder} --ordering ts --no-ordering
        1: {folder} --record-key id
        1: {folder} --partition-by day""",
    "repair": """
        {table}
        {table} --duplicates --plan --run
        {table} --duplicates --columns prise
        {table} --duplicates --columns key --run""",
    "restore": """
        {table}
        {table} --to yesterday
        {table} --before ../x
        {table} --to {newest} --before {newest}
        {table} --to {newest} --instant {newest}
        {table} --execute --instant ../x
        {table} --cancel ../x
        {table} --cancel {newest} --plan""",
    "rollback": """
        {table} yesterday
        {table} ../../x
        1: {table} yesterday --plan""",
    "savepoint": """
        {table} create --instant yesterday
        {table} create --instant 20200101000000000
        {table} create --if-exists
        {table} list --comment mine
        {table} list --by me
        {table} list --columns prise
        {table} delete""",
    "schema": "{table} --columns prise",
    "services": "{table} --columns prise",
    "show": "",
    "size": """
        {table} --columns prise
        {table} --csv --json""",
    "sql": """
        {table} ''
        {table} 'SELEC 1'
        {table} 'SELECT prise FROM orders'
        {table} 'UPDATE orders SET prise = 1'
        {table} 'SELECT 1' --columns prise
        {table} 'SELECT 1' --csv --json
        {table} 'DELETE FROM another' --plan
        {table} 'SELECT * FROM other' --table other
        {table} 'INSERT INTO orders VALUES (1)' --option hoodie.spark.sql.insert.into.operation=sometimes
        {table} 'CALL show_comits()'
        {table} 'CREATE INDEX x ON another (day)'
        {table} 'CREATE INDEX x ON orders (prise)'
        {table} 'DROP INDEX x ON orders'""",
    "sweep": "{table} --option pyhudi.sweep.min.age.minutes=-1",
    "tables": """
        {table} --columns prise
        {table} --csv --json
        {table} --option pyhudi.catalog.tls=perhaps
        thrift://127.0.0.1:1/lake
        glue://""",
    "timeline": """
        {table} --columns prise
        {table} --last 0""",
    "upgrade": """
        {table} --to 7
        {table} --to seven""",
    "upkeep": """
        {table} --service odd
        {table} --seconds -1
        {table} --seconds nan
        {table} --bytes -1
        {table} --log-ratio nan
        {table} --small-groups -5
        {table} --columns prise
        {table} --option hoodie.clean.commits.retained=many""",
}
"""Bad input by command: the words after its name. The exit code is 2, or the number that a line begins with: the answer is no."""

ANY_TEXT = {("recover", "name")}
"""Parameters for which every text is good."""

OF_EVERY_COMMAND = {"location", "locations", "storage_options", "options"}
"""Parameters whose bad input `lines_of_every_command` has."""


def takes_odd_words(option: click.Parameter) -> bool:
    """Whether every text is good for Click: then the command itself refuses bad input."""
    return not isinstance(option.type, click.Choice | click.types.IntParamType | click.types.FloatParamType)


def base(name: str) -> list[str]:
    """The words of a command that works, without its location."""
    return next(list(words[1:]) for words in RUNS if words[0] == name)


def lines_of_every_command(name: str) -> list[list[str]]:
    """Bad input that follows from the parameters of a command: unknown options, no location, bad locations, words of a wrong kind."""
    good, command = base(name), COMMANDS[name]
    lines = [[*good, "--no-such-option"]]
    names = {option.name for option in command.params}
    if names & {"location", "locations"}:
        number = 1 if name == "bootstrap" else 0
        lines.append(good[:number])
        bad = [
            "",
            "~/orders",
            "nosuch://orders",
            "s3://",
            *(("{none}", "{folder}", "{file}") if "{table}" in good else ()),
        ]
        lines += [[*good[:number], place, *good[number + 1 :]] for place in bad if (name, place) not in QUESTIONS]
        lines += [[*good, "--storage-option", word] for word in ("odd", "no_such=1", "fsync=perhaps")]
    if "options" in names:
        lines += [[*good, "--option", word] for word in ("odd", "hoodie.no.such=1", "hoodie.parquet.max.file.size=big")]
    for option in command.params:
        if not takes_odd_words(option) and isinstance(option, click.Option):
            lines.append([*good, option.opts[0], "odd"])
        elif not takes_odd_words(option):
            lines.append([*good[:1], "odd"] if "location" in names else ["odd"])
    return lines


QUESTIONS = {("recover", place) for place in ("{none}", "{folder}", "{file}")}
"""`recover` answers with a question at a folder without data files."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the placeholders stand for: a table with rows, good files, damaged ones, and places without a table."""
    root = tmp_path_factory.mktemp("bad")
    table = make(str(root / "table"), name="orders", table_type="merge_on_read")
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    found = places(root, table=table.location, newest=table.timeline.commits[-1].requested_time)
    for name in ("folder", "damaged"):
        (root / name).mkdir()
    (root / "file").write_text("no table")
    (root / "source/rows.csv").write_text("id,day,price,ts\n9,b,1.0,1\n")
    texts = {
        "typed": "id,day,price,ts\n9,b,x,1\n",
        "empty": "",
        "ragged": "id,day\n1,a\n2\n",
        "no_key": "id,day,price,ts\n,b,1.0,1\n",
    }
    for name, text in (texts | {"semicolons": "id;day;price;ts\n9;b;1.0;1\n"}).items():
        (root / f"damaged/{name}.csv").write_text(text)
    (root / "damaged/cut.parquet").write_bytes((root / "source/rows.parquet").read_bytes()[:-20])
    return found | {name: str(root / name) for name in ("none", "folder", "file", "damaged")} | {"root": str(root)}


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_input_of_a_command_is_refused_before_anything_is_written(folder: dict[str, str], name: str) -> None:
    lines = [(2, words) for words in lines_of_every_command(name)]
    for line in filter(None, map(str.strip, BAD[name].splitlines())):
        code, _, rest = line.rpartition(": ") if line.startswith("1: ") else ("2", "", line)
        lines.append((int(code), shlex.split(rest)))
    fast = (
        ["--storage-option", "fsync=false"] if "location" in {option.name for option in COMMANDS[name].params} else []
    )
    before = contents(folder["root"])
    for code, words in lines:
        given = [*words[:1], *fast, *words[1:]] if words else words
        done = run([name, *given], folder)
        assert is_an_answer(done), f"{words}: {done.exception!r}"
        assert done.exit_code == code, f"{words}: {done.output}"
        assert contents(folder["root"]) == before, f"{words} changed something"
        said = " ".join(done.output.split())
        if code == 2 and "Usage: " not in said and name != "check":
            assert re.match(r"(no table )?\w+Error: ", said), said
            assert re.search(r"[.)?] \S.*[.?]$", said), f"{words}: no hint: {said}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_of_a_command_has_bad_input(name: str) -> None:
    words = set(shlex.split(BAD[name])) | set(base(name))
    named = [option for option in COMMANDS[name].params if not getattr(option, "is_flag", False)]
    asked = [option for option in named if option.name not in OF_EVERY_COMMAND and takes_odd_words(option)]
    untried = [
        option.name
        for option in asked
        if not words & set(option.opts) and (name, option.name) not in ANY_TEXT and isinstance(option, click.Option)
    ]
    assert untried == [], f"give BAD[{name!r}] bad input for them"
    assert all(command in BAD for command in COMMANDS)
