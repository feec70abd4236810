"""Debian's chromium, driven by selenium: pages as people see them, and what the browser had to say of them."""

import io
import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = "axe-core@4.14.1"
PHONE, WALL = (390, 844), (1920, 1080)
SIZES = (PHONE, (768, 1024), (1024, 768), (1280, 800), WALL)
IN_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs `apt-get install chromium chromium-driver`"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium's own
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@contextmanager
def chromium(size=WALL):
    """Give a browser of this size, in CSS pixels."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--lang=en-GB"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(120)
    driver.set_script_timeout(120)
    try:
        resize(driver, size)
        yield driver
    finally:
        driver.quit()


def resize(driver, size, *, dark=False):
    """Show the page on a screen of this size; a phone's is touched."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # half-way between two colours nothing can be judged
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})


def complaints(driver):
    """Errors in the console, since last asked."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def foreign(driver, url):
    """Requests that went anywhere but to the page's server, since last asked."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked = message["params"]["request"]["url"]
            if urlsplit(asked).netloc != urlsplit(url).netloc and not asked.startswith(("data:", "about:", "blob:")):
                found.append(asked)
    return found


def overflow(driver):
    """What makes the page wider than the screen: by how many pixels, and the elements that reach beyond it."""
    wider = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    beyond = driver.execute_script(
        "return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + .5)"
        ".map(e => `${e.closest('[id]')?.id} ${e.tagName} ${e.textContent.slice(0, 60)}`)"
    )
    return [wider, *beyond] if wider > 0 else []


def cut_off(driver):
    """Tables that are wider than their place: what a name says, and by how many pixels."""
    return driver.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        ".map(e => e.getAttribute('aria-label') + ': ' + (e.scrollWidth - e.clientWidth))"
    )


def axe_script(folder: Path) -> str:
    """axe-core, as its authors publish it; empty where it cannot be had."""
    file = folder / "package" / "axe.min.js"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "pack", AXE], cwd=folder, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            return ""
        (packed,) = folder.glob("axe-core-*.tgz")
        shutil.unpack_archive(packed, folder, filter="data")
    return file.read_text(encoding="utf-8")


def violations(driver, script):
    """What axe-core finds of serious or critical impact: rule and where; nothing without it."""
    if not script:
        return []
    driver.execute_script(script)
    found = driver.execute_async_script("axe.run(document).then(arguments[0], e => arguments[0]({error: String(e)}))")
    assert "error" not in found, found
    return [
        f"{v['id']}: {v['help']}: {[node['target'] for node in v['nodes']][:3]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]


def nameless(driver):
    """Drawings that a screen reader finds, and has no name for; without any drawing nothing was looked at."""
    nodes = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    drawn = [n for n in nodes if not n["ignored"] and n["role"]["value"] in ("image", "img", "Canvas")]
    assert drawn
    return [n for n in drawn if not n["name"]["value"]]


def shoot(driver, path: Path, size, *, height=0, dark=False):
    """Take a picture of the page's top, or of all of it down to a height."""
    width, tall = size
    resize(driver, (width, height or tall), dark=dark)
    driver.execute_script("window.scrollTo(0, 0)")
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)  # greys, mostly
