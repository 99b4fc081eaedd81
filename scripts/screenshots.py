"""Pictures of the demo's UI for the docs: ``make demo UI=0``, then ``make screenshots``.

It starts ``dagster dev`` in the project's folder and controls a real Chromium (Debian: ``apt-get install chromium``). It clicks what a person would
click, and fails if the page does not show something that the docs promise.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1400, "height": 900}
LIMIT_MS = 180_000
LARGEST = 300_000


def main() -> None:
    """Serve, visit, save."""
    parser = argparse.ArgumentParser(description="Pictures of the demo's UI.")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser to drive")
    options = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with _served() as address, sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=options.chromium, args=arguments)
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(LIMIT_MS)
        _visit(page, address)
        browser.close()


def _visit(page: Page, address: str) -> None:
    page.goto(f"{address}/asset-groups")
    _see(page, "daily_delays")
    _save(page, "asset-graph")

    page.goto(f"{address}/assets/flights?view=checks&checkDetail=compaction_lag")
    _see(page, "delta commits since the last compaction")
    _save(page, "checks")

    page.goto(f"{address}/runs/?q%5B0%5D=job%3Ahudi__flights__services")
    _see(page, "hudi__flights__services")
    page.locator("a[href^='/runs/']", has_text="View").first.click()
    page.get_by_placeholder("Filter…").fill("type:STEP_OUTPUT")
    _see(page, "skipped_because")
    page.mouse.move(SIZE["width"] / 2, SIZE["height"] * 3 / 4)
    page.mouse.wheel(0, -20_000)  # the page shows the newest event, at the bottom
    _see(page, "hudi/done")
    _save(page, "service-job")

    page.goto(f"{address}/assets/flights")
    _see(page, "flight_date")
    _save(page, "flights-columns")

    page.goto(f"{address}/assets/flights?view=partitions&partition=2013-01-07")
    _see(page, "hudi/instant")
    _save(page, "flights-partitions")
    page.get_by_text("[Show Markdown]").first.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("img").first.wait_for()
    page.wait_for_timeout(1500)
    _save(dialog, "timeline-chart")

    page.goto(f"{address}/assets/daily_delays?view=events")
    _see(page, "hudi/rows_updated")
    _save(page, "materialization")

    for asset, name in (("flights", "plots-by-partition"), ("daily_delays", "plots")):
        page.goto(f"{address}/assets/{asset}")
        plots = page.get_by_text("Plots").first
        plots.scroll_into_view_if_needed()
        plots.click()
        page.locator("canvas").first.wait_for()
        page.locator("canvas").first.scroll_into_view_if_needed()
        page.wait_for_timeout(2500)
        _save(page, name)

    page.goto(f"{address}/locations/__repository__@pyhudi/resources/lake")
    _see(page, "warehouse")
    if page.get_by_text("code-block").count() or page.get_by_text("::").count():
        sys.exit("the page of the lake shows markup")  # no picture: the page shows this machine's folders


def _see(page: Page, text: str) -> None:
    """Wait until the text is on the page and the page has stopped changing."""
    page.get_by_text(text).first.wait_for()
    page.wait_for_timeout(2500)
    deadline = time.monotonic() + LIMIT_MS / 1000
    while "Loading" in page.inner_text("body"):
        if time.monotonic() > deadline:
            sys.exit(f"{page.url} still loads")
        page.wait_for_timeout(500)


def _save(page: Page | Locator, name: str) -> None:
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"{path} is larger than {LARGEST:,} bytes")


@contextmanager
def _served() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dagster = Path(sys.executable).with_name("dagster")
    environment = {key: value for key, value in os.environ.items() if key != "DAGSTER_HOME"}
    process = subprocess.Popen(
        [str(dagster), "dev", "--host", "127.0.0.1", "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads yet
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _wait(address: str) -> None:
    deadline = time.monotonic() + LIMIT_MS / 1000
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{address}/server_info", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(1)
    sys.exit("the UI did not come up")


if __name__ == "__main__":
    main()
