"""What the page costs after 20,000 trials, and what 50 open pages cost the campaign's tick.

python -m tests.page.measure_page first STATE     # a long journal, see big_journal.py
python -m tests.page.measure_page tick            # runs the demo twice
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, closing
from http.client import HTTPException
from pathlib import Path

import psutil

from rigctl.page.figures import series
from rigctl.page.gatherer import Gatherer
from rigctl.page.render import page
from tests.page.big_journal import lengthen
from tests.page.served import NoScholar

READERS = 50


def first(directory: Path) -> None:
    """Time the first view of a server that has just started, an update when nothing changed, and one after a trial."""
    gatherer = Gatherer(directory, NoScholar())

    def timed(what, work):
        began, cpu = time.monotonic(), time.process_time()
        out = work()
        print(f"{what}: {time.monotonic() - began:.3f} s, {time.process_time() - cpu:.3f} s CPU")
        return out

    def view():
        shown = asyncio.run(gatherer.fresh())
        return page(shown.facts, shown.study, acting=None)

    html = timed("first view", view)
    print(f"page: {len(html.encode())} bytes")

    def update():
        asyncio.run(gatherer.fresh())

    for number in range(6):
        if number == 3:
            lengthen(directory, gatherer.shown.facts.charged + 1)
        gatherer._lock, gatherer._seen_s, gatherer._took_s = asyncio.Lock(), float("-inf"), 0.0
        timed(f"update {number + 1}{', with another trial' if number == 3 else ''}", update)
    timed("series", lambda: json.dumps(series(gatherer.shown.facts)))
    sections = timed("sections for those who may act", lambda: gatherer.shown.for_actors)
    assert sections["now"]


def tick() -> None:
    """Run the demo with its page and nobody looking, then with many readers; print how late the watch looked."""
    ratios = [_demo(0), _demo(READERS), _demo(0), _demo(READERS)]
    alone, watched = ratios[0::2], ratios[1::2]
    print(
        f"median without readers {statistics.median(alone):.4f} s, with {READERS}: {statistics.median(watched):.4f} s"
    )


def _demo(readers: int) -> float:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        words = ["demo", "--serve", "--json", "--seed", "1", "--budget", "60", "--max-trials", "40", "--keep", folder]
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-m", "rigctl", *words], stdout=-1, stderr=-1, text=True)
        )
        url = next(line.split()[1] for line in process.stderr if line.startswith("page: "))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        server = next(p for p in psutil.Process(process.pid).children() if "serve" in p.cmdline())
        for _ in range(readers):
            line = stack.enter_context(closing(urllib.request.urlopen(f"{url}events", timeout=60)))  # noqa: S310
            threading.Thread(target=_read, args=[line], daemon=True).start()
        cpu = 0.0
        while process.poll() is None:
            try:
                cpu = sum(server.cpu_times()[:2])
            except psutil.Error:
                break
            time.sleep(0.2)
        answer = json.loads(process.communicate()[0])
        worst = float(answer["worst_tick_delay_s"])
        took = float(answer["campaign_s"])
        print(f"{readers} readers: worst tick {worst:.4f} s late, campaign {took:.1f} s, server {cpu:.1f} s CPU")
        return worst


def _read(line) -> None:
    try:
        while line.read(65536):
            pass
    except (OSError, ValueError, HTTPException):
        return  # the campaign has ended


if __name__ == "__main__":
    if sys.argv[1] == "first":
        first(Path(sys.argv[2]))
    else:
        tick()
