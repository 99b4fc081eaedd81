"""The snippets of docs/airflow.md run in the order of the page, and do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.airflow_home import dag_of, states, xcoms

import pyhudi as hudi

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "airflow.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RUN = ("orders", "visits", "prices", "shop", "order_days", "look_after_orders", "when_due")
ONLY_LOADED = ("nightly", "big_orders")


def test_each_snippet_runs_in_a_test() -> None:
    known = (*RUN, *ONLY_LOADED)
    defined = [
        name for text in SNIPPETS for name in re.findall(r'with DAG\("(\w+)"|^def (\w+)\(\):', text, re.MULTILINE)
    ]
    assert sorted("".join(names) for names in defined) == sorted(known)


def loaded(dag_id: str):
    (text,) = [text for text in SNIPPETS if f'DAG("{dag_id}"' in text or f"def {dag_id}()" in text]
    return dag_of(text, f"guide_{dag_id}", dag_id)


def run(dag_id: str, **how: object):
    return loaded(dag_id).test(**how)


def test_the_snippets_of_the_page_do_what_it_says(home: Path, lake: Path) -> None:
    first = run("orders")
    assert states(first) == {"load": "success", "compact": "skipped"}
    said = xcoms(first, "compact")["skipped_because"]
    assert said in PAGE, said
    triggered = {"logical_date": None}  # as by `airflow dags trigger orders`
    assert states(run("orders", **triggered))["compact"] == "success", "the second run compacts"
    assert [loaded(name).dag_id for name in ONLY_LOADED] == list(ONLY_LOADED)
    assert states(run("visits")) == {"load": "success"}
    assert states(run("prices")) == {"new_prices": "success"}
    orders = hudi.open_table(f"{lake}/orders").to_arrow(["id", "price"]).sort_by("id").to_pydict()
    assert orders == {"id": [1, 2], "price": [12.0, 7.0]}
    assert states(run("shop")) == {"load": "success"}
    shop = [hudi.open_table(f"{lake}/shop/{name}") for name in ("orders", "lines")]
    assert [table.scan().count() for table in shop] == [1, 2]
    assert len({table.timeline.newest_completion for table in shop}) == 1
    assert states(run("order_days")) == {"per_day": "success"}
    assert hudi.open_table(f"{lake}/order_days").scan(columns=["changed"]).to_arrow()["changed"].to_pylist() == [2]
    assert states(run("order_days")) == {"per_day": "skipped"}
    finished = states(run("look_after_orders"))
    assert finished.pop("check") == "success"
    assert set(finished) == {"service[0]", "service[1]", "service[2]"}
    assert set(finished.values()) <= {"success", "skipped"}


@pytest.mark.slow
def test_the_sensors_of_the_page_wait(home: Path, lake: Path) -> None:
    """Cleaning has nothing to do, so the sensor waits in the triggerer, as Airflow runs it in this process."""
    run("orders")
    table = hudi.open_table(f"{lake}/orders")
    for _ in range(12):
        table.upsert(table.scan(columns=["id", "day", "price"]).to_arrow())
    assert states(run("when_due"))["state"] == "success"
