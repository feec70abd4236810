"""The page in a real browser beside the demo. `PICTURES=docs/pictures` makes the pictures of page and report anew."""

import json
import os
import time
from functools import partial

import pytest

from tests.forked import run
from tests.page.browser import (
    AXE,
    IN_BROWSER,
    PHONE,
    SIZES,
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
pytestmark = IN_BROWSER
PICTURES = os.environ.get("PICTURES", "")
"""A directory for pictures of the page; none are made without it."""
JUDGED = ((PHONE, True), (WALL, False))
"""Sizes, and whether it is dark, in which axe-core looks at the page: each of its rules once, colours in both."""
TABLES = ("rule", "reads", "sets", "options")
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
        wait_until(lambda: shown(driver, "[data-live=model] figure"), "the model")
        trials = len(driver.execute_script("return document.querySelector('[data-live=course]').innerHTML"))
        before = text_of(driver, "money")
        wait_until(lambda: text_of(driver, "money") != before, "more money spent")
        assert trials > 0
        assert driver.execute_script("return window.notLoadedAnew") is True

        # who has no token does nothing
        driver.get(f"{url}login")
        log_in(driver, "rigctl-wrong")
        assert shown(driver, "#token")
        assert violations(driver, axe) == []
        complained = [c for c in complaints(driver) if "403" not in c]
        assert complained == []
        assert foreign(driver, url) == []

        # who has one does
        wait_until(lambda: logged_in(driver, url, token), "the buttons")
        wait_until(lambda: shown(driver, "table.rule"), "a rule that follows readings")
        click(driver, "button.pause")
        wait_until(lambda: shown(driver, "button.resume"), "the pause")
        wait_until(lambda: all(shown(driver, f"table.{kind}") for kind in TABLES), "the model of all trials")

        look_at_all_sizes(driver, axe)
        if PICTURES:
            pictures(driver)
        click(driver, "button.resume")
        wait_until(lambda: shown(driver, "button.pause"), "trials again")
        took_s = click(driver, "button.safe")
        print(f"safe from the page after {took_s:.2f} s")
        assert process.wait(120) == 0
        assert [c for c in complaints(driver) if "403" not in c and "429" not in c and "ERR_" not in c] == []
        assert foreign(driver, url) == []
        look_at_the_report(driver, state, axe)
    acts = ask(state, "export", "--records", "acts")
    assert "Anna (page)" in acts
    assert "wrong token" in acts
    assert token not in acts + "".join(said)
    if not axe:
        pytest.skip(f"all was seen but what axe-core finds, which cannot be had by `npm pack {AXE}`")


def look_at_all_sizes(driver, axe):
    """Nothing overflows, every table is there whole, each drawing has a name, and axe-core finds nothing serious."""
    assert nameless(driver) == []
    for size in SIZES:
        resize(driver, size)
        wait_until(lambda: not overflow(driver), f"{size}: {overflow(driver)}", within_s=10.0)
        assert cut_off(driver) == [], size
    for size, dark in JUDGED:
        resize(driver, size, dark=dark)
        assert violations(driver, axe) == [], (size, dark)


def look_at_the_report(driver, state, axe):
    """It is for all to read, by day and by night, and fits a phone; its picture is made."""
    file = state.parent / "report.html"
    ask(state, "report", "-o", str(file))
    driver.get(file.as_uri())
    for dark in (True, False):
        resize(driver, PHONE, dark=dark)
        assert overflow(driver) == []
        assert violations(driver, axe) == [], dark
    if PICTURES:
        picture(driver, "report", (1000, 800), 1150)


def shown(driver, selector):
    return driver.find_elements("css selector", selector)


def logged_in(driver, url, token):
    """Whether the page has its buttons; tries to log in, which may be too soon after a wrong token."""
    driver.get(f"{url}login")
    if not driver.find_elements("id", "token"):  # the one before came through
        driver.get(url)
    else:
        log_in(driver, token)
    return shown(driver, "button.safe")


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
    """Make the pictures of the docs; each is small."""
    picture(driver, "page-desk", (1280, 800), 1150)
    picture(driver, "page-phone", PHONE, 1500)
    picture(driver, "page-dark", (1280, 800), 0, dark=True)
    resize(driver, WALL)


def picture(driver, name, size, height, *, dark=False):
    path = ROOT / PICTURES / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    shoot(driver, path, size, height=height, dark=dark)
    assert path.stat().st_size <= LARGEST, path
