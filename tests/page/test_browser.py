"""The page in a real browser beside the demo. It makes the pictures of page and report in docs/pictures."""

import json
import os
import time
from functools import partial
from pathlib import Path

import pytest

from tests.forked import run
from tests.page.browser import (
    AXE,
    CHROMIUM,
    DRIVER,
    PHONE,
    WALL,
    axe_script,
    chromium,
    complaints,
    cut_off,
    foreign,
    nameless,
    overflow,
    resize,
    shoot,
    violations,
)
from tests.page.test_beside import page_of, rigctl
from tests.system import stack
from tests.system.stack import ROOT

selenium = pytest.importorskip("selenium.common", reason="needs the extra `browser`: pip install -e '.[browser]'")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs `apt-get install chromium chromium-driver`"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium's own
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PICTURES = Path(os.environ.get("PICTURES") or ROOT / "docs" / "pictures")
wait_until = partial(stack.wait_until, every_s=0.5)
"""Asking a browser costs both sides more than the page itself."""
LARGEST = 150_000
"""Bytes of a picture."""


def ask(state, *words):
    done = run(["rigctl", *words, "--state", state])
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def axe():
    return axe_script(ROOT / "build" / "axe")


def text_of(driver, section):
    return driver.execute_script(f"return document.querySelector('[data-live={section}]')?.textContent ?? ''")


def test_the_page_in_a_browser(tmp_path, axe):
    """It fills, updates by itself, denies a wrong token and keeps that, pauses, resumes, and goes safe.

    No error in the console, no request leaves the machine, axe-core has no serious finding, nothing overflows.
    """
    kept = tmp_path / "kept"
    state = kept / "state"
    words = ("demo", "--serve", "--seed", "1", "--budget", "200", "--speed", "300", "--keep", str(kept))
    with rigctl(*words, cwd=tmp_path) as (process, said), chromium() as driver:
        url = page_of(process, said)
        token = json.loads(ask(state, "token", "create", "Anna", "--json"))["token"]
        wait_until(lambda: (driver.get(url), "greenhouse" in driver.title)[1], "the page")

        # it fills, and goes on by itself
        driver.execute_script("window.notLoadedAnew = true")
        wait_until(lambda: "Nothing" not in text_of(driver, "advice") and text_of(driver, "model"), "the model")
        trials = len(driver.execute_script("return document.querySelector('[data-live=course]').innerHTML"))
        before = text_of(driver, "money")
        wait_until(lambda: text_of(driver, "money") != before, "more money spent")
        assert trials > 0
        assert driver.execute_script("return window.notLoadedAnew") is True

        assert violations(driver, axe) == []

        # who has no token does nothing
        driver.get(f"{url}login")
        log_in(driver, "rigctl-wrong")
        wait_until(lambda: "not a token of this campaign" in driver.page_source, "word of the wrong token")
        assert violations(driver, axe) == []
        wait_until(lambda: "wrong token" in ask(state, "export", "--records", "acts"), "the audit of it")
        complained = [c for c in complaints(driver) if "403" not in c]
        assert complained == []
        assert foreign(driver, url) == []

        # who has one does
        wait_until(lambda: logged_in(driver, url, token), "the buttons")
        assert violations(driver, axe) == []
        wait_until(lambda: driver.find_elements("css selector", "table.rule"), "a rule that follows readings")
        click(driver, "button.pause")
        wait_until(lambda: "paused by Anna (page)" in text_of(driver, "now"), "the pause")
        wait_until(lambda: "The model is reading" not in everything(driver), "the model of all trials")

        look_at_all_sizes(driver, axe)
        look_at_the_tables(driver)
        pictures(driver)
        click(driver, "button.resume")
        wait_until(lambda: "paused" not in text_of(driver, "now"), "trials again")
        took_s = click(driver, "button.safe")
        print(f"safe from the page after {took_s:.2f} s")
        assert process.wait(120) == 0
        assert [c for c in complaints(driver) if "403" not in c and "429" not in c and "ERR_" not in c] == []
        assert foreign(driver, url) == []
        look_at_the_report(driver, state, axe)
    acts = ask(state, "export", "--records", "acts")
    assert "Anna (page)" in acts
    assert token not in acts + "".join(said)
    if not axe:
        pytest.skip(f"all was seen but what axe-core finds, which cannot be had by `npm pack {AXE}`")


def look_at_all_sizes(driver, axe):
    """Nothing overflows, and axe-core finds nothing serious, in light or dark."""
    for size in (PHONE, (768, 1024), WALL):
        for dark in (False, True):
            resize(driver, size, dark=dark)
            assert overflow(driver) <= 0, size
            assert violations(driver, axe) == [], (size, dark)


def look_at_the_tables(driver):
    """Every one is there whole, the rule's and that of the readings among them; each drawing has a name."""
    assert nameless(driver) == []
    for kind in ("rule", "reads", "sets", "options"):
        assert driver.find_elements("css selector", f"table.{kind}"), kind
    for size in (PHONE, (768, 1024), (1024, 768), (1280, 800), WALL):
        resize(driver, size)
        assert cut_off(driver) == [], size


def look_at_the_report(driver, state, axe):
    """It is for all to read and fits a phone; its picture is made."""
    file = state.parent / "report.html"
    ask(state, "report", "-o", str(file))
    driver.get(file.as_uri())
    resize(driver, PHONE)
    assert overflow(driver) <= 0
    assert violations(driver, axe) == []
    shoot(driver, PICTURES / "report.png", (1000, 800), height=1150)
    assert (PICTURES / "report.png").stat().st_size <= LARGEST


def everything(driver):
    return driver.find_element("css selector", "main").text


def logged_in(driver, url, token):
    """Whether the page has its buttons; tries to log in, which may be too soon after a wrong token."""
    driver.get(f"{url}login")
    if not driver.find_elements("id", "token"):  # the one before came through
        driver.get(url)
    else:
        log_in(driver, token)
    return driver.find_elements("css selector", "button.safe")


def click(driver, selector):
    """Wall seconds from the click until the next page is there: the campaign has answered by then."""
    while True:
        try:
            button = driver.find_element("css selector", selector)
            began_s = time.monotonic()
            button.click()
        except selenium.StaleElementReferenceException:  # its section has just changed
            continue
        return time.monotonic() - began_s


def log_in(driver, token):
    driver.find_element("id", "token").send_keys(token)
    driver.find_element("css selector", "main button").click()


def pictures(driver):
    """Make the pictures of the docs, and look that each is small."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, size, height, dark in (
        ("page-desk", (1280, 800), 1150, False),
        ("page-phone", PHONE, 1500, False),
        ("page-dark", (1280, 800), 0, True),
    ):
        path = PICTURES / f"{name}.png"
        shoot(driver, path, size, height=height, dark=dark)
        assert path.stat().st_size <= LARGEST, path
    resize(driver, WALL)
