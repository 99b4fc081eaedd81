"""Statements with words left out, exchanged or repeated are carried out or refused with an error of the package, and never something else."""

import random

import pyarrow as pa
import pytest

import pyhudi as hudi

SEEDS = (
    (
        "CREATE TABLE IF NOT EXISTS p ( id BIGINT NOT NULL , price DECIMAL ( 9 , 2 ) DEFAULT 1 COMMENT 'x' , CHECK ( id > 0 ) ) USING hudi TBLPROPERTIES ("
        " primaryKey = 'id' , type = 'mor' ) PARTITIONED BY ( price ) COMMENT 'y' LOCATION 'memory://fuzz/p'"
    ),
    "INSERT OVERWRITE t PARTITION ( day = 'a' ) ( id , v ) SELECT id , v FROM s WHERE v IS NOT NULL",
    "INSERT INTO t BY NAME VALUES ( 1 , 'a' , 2.5 ) , ( - 3 , NULL , CAST ( '1' AS DOUBLE ) )",
    "UPDATE t AS x SET v = x . v * 2 + 1 , day = concat ( day , 'b' ) WHERE x . id IN ( 1 , 2 ) AND NOT day LIKE 'a%'",
    "DELETE FROM t WHERE v BETWEEN 1 AND 2 OR day || 'x' = 'ax'",
    (
        "MERGE INTO t USING ( SELECT * FROM s ) AS s ON t . id = s . id WHEN MATCHED AND s . v > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s . v"
        " WHEN NOT MATCHED THEN INSERT ( id , day , v ) VALUES ( s . id , s . day , s . v ) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0"
    ),
    "ALTER TABLE t ADD COLUMNS ( a INT AFTER id COMMENT 'x' , b STRUCT < c : INT > )",
    "ALTER TABLE t ALTER COLUMN v TYPE DOUBLE",
    "ALTER TABLE t DROP PARTITION ( day = 'a' )",
    "TRUNCATE TABLE t PARTITION ( day = 'a' )",
    "WITH a AS ( SELECT * FROM t TIMESTAMP AS OF '2026-01-01' ) SELECT day , sum ( v ) FROM a JOIN s USING ( id ) GROUP BY day ORDER BY 1 LIMIT 3",
    "SELECT * FROM hudi_table_changes ( 't' , 'latest_state' , 'earliest' ) WHERE id > 1",
    "CALL show_commits ( table => 't' , limit => 3 , filter => 'total_errors = 0' )",
    "DESCRIBE EXTENDED t",
    "SHOW CREATE TABLE t",
    "COMMENT ON COLUMN t . v IS 'x'",
)
WORDS = sorted({word for text in SEEDS for word in text.split()})


@pytest.mark.parametrize("seed", range(8))
def test_damaged_statements_are_refused_by_errors_of_the_package(seed: int) -> None:
    draw = random.Random(seed)
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64())])
    source = pa.table({"id": [1, 4], "day": ["a", "b"], "v": [1.0, 2.0]}, schema)
    table = hudi.create_table(
        f"memory://fuzz/t{seed}", schema, "id", "day", options={"hoodie.metadata.enable": "false"}
    )
    table.insert(source)
    for _ in range(40):
        words = draw.choice(SEEDS).split()
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(words))
            words[at : at + draw.randrange(2)] = draw.choice(
                ([], [draw.choice(WORDS)], words[at : at + 2], [words[at - 1]])
            )
            words = words or ["SELECT"]
        text = " ".join(words)
        try:
            hudi.sql(text, {"t": table, "s": source})
        except hudi.HudiError as error:
            assert str(error), text
        except Exception as error:
            raise AssertionError(f"{text}\n{type(error).__name__}: {error}") from error
