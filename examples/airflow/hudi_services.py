"""Table services of a Hudi table in Apache Airflow: a sensor waits for a new state of the table, and tasks run what is due.

Put this file and ``snapshot_token.py`` into the folder of the DAGs. Airflow needs no pyhudi in its own environment: pyhudi is in another one, whose
Python `PYHUDI_PYTHON` names. The table may also be written by others, because each command makes its plan under the table's lock.
"""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import PokeReturnValue, Variable, dag, task

PYTHON = os.environ.get("PYHUDI_PYTHON", "python3")
TABLE = os.environ.get("PYHUDI_TABLE", "/lake/orders")
SEEN = "hudi_snapshot_token"


def output_of(*words: str) -> str:
    """What a command of pyhudi prints; its error fails the task."""
    done = subprocess.run([PYTHON, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    return done.stdout.strip()


@dag(
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
)
def hudi_services():
    """After a commit of any writer: compact, cluster, clean and index the table, if there is something to do."""

    @task.sensor(poke_interval=30, timeout=int(os.environ.get("PYHUDI_WAIT", "540")), mode="reschedule", soft_fail=True)
    def new_state() -> PokeReturnValue:
        """The token of the table's state, as soon as it is another one than after the last run. No other state of the table has this token."""
        token = output_of(str(Path(__file__).with_name("snapshot_token.py")), TABLE)
        return PokeReturnValue(is_done=token != Variable.get(SEEN, ""), xcom_value=token)

    def service(name: str, *words: str):
        @task(task_id=name, retries=2, retry_delay=timedelta(seconds=30))
        def run() -> dict:
            found = json.loads(output_of("-m", "pyhudi", *words, "--json"))
            print(json.dumps(found, indent=2))
            return found if isinstance(found, dict) else {"result": found}

        return run()

    @task
    def remember() -> None:
        """The services have made a new state, too: the sensor waits for the next one of a writer."""
        Variable.set(SEEN, output_of(str(Path(__file__).with_name("snapshot_token.py")), TABLE))

    (
        new_state()
        >> service("compact", "compact", TABLE)
        >> service("cluster", "cluster", TABLE)
        >> service("clean", "clean", TABLE)
        >> service("index", "index", TABLE, "create", "bloom_filters", "--if-not-exists")
        >> remember()
    )


hudi_services()
