"""The page in a headless Chromium, by HTTP: a published page is read so, and a status says what a link leads to."""

import contextlib
import functools
import http.server
import re
import shutil
import threading
import urllib.request
from urllib.parse import urldefrag

import imageio.v3 as imageio
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import Select

from acer_tf.reproduction.collecting import describe
from acer_tf.reproduction.evidence import Evidence, write_evidence
from acer_tf.reproduction.figure import OWN_AIM
from acer_tf.reproduction.report.page import write_page
from acer_tf.reproduction.verdicts import HEAD
from tests.reproduction.report.example import build
from tests.reproduction.report.synthetic import write_run

pytestmark = pytest.mark.process

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # it does not start as root with one
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers have little of it
    # Nothing but the page is asked for.
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def served(folder):
    """The address of the page of a results folder."""
    write_page(folder)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with served(build(tmp_path_factory.mktemp("site"))) as address:
        yield address


@pytest.fixture(scope="module")
def site_with_curves(tmp_path_factory):
    """Two methods in two tasks: "two" has twice the return of "one", and returns grow by 1 an interval."""
    folder, cells = tmp_path_factory.mktemp("curves"), []
    for env, first in (("minatar/breakout", 1.0), ("atari/Pong", -20.0)):
        for method, factor in (("one", 1.0), ("two", 2.0)):
            name = f"{method}-{env.split('/')[1]}"
            settings = {"env": env, "seed": 0, "total_steps": 100_000}
            returns = [factor * (first + interval) for interval in range(10)]
            write_run(folder / "study" / "runs" / name, settings, returns)
            cells.append(describe(folder / "study" / "runs" / name, name, method))
    write_evidence(folder / "study", Evidence("study", "Study", (), "command", tuple(cells)))
    row = f"Paper,it learns,undecided: 2 seeds,,,,,,{OWN_AIM},study"
    (folder / "verdicts.csv").write_text(f"{','.join(HEAD)}\n{row}\n")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("the page in a browser needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("no_proxy", "localhost,127.0.0.1")
        found = webdriver.Chrome(options=options, service=Service(driver))
        stack.callback(found.quit)
        yield found


@pytest.fixture
def opened(chromium, site):
    """Opens the page in a window of a width, in light or dark."""

    def open_page(width=1280, scheme="light"):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        chromium.get(site)
        return chromium

    return open_page


def test_in_a_browser_images_load_links_lead_somewhere_and_nothing_complains(opened, site):
    driver = opened()
    assert driver.title == "acer_tf: results"
    widths = driver.execute_async_script(
        """const done = arguments[0], images = [...document.images];
        images.forEach(image => { image.loading = "eager"; });
        Promise.all(images.map(image => image.decode().catch(() => 0)))
            .then(() => done(images.map(image => image.naturalWidth)));"""
    )
    assert len(widths) == 3 and min(widths) > 0
    script = "return [...document.querySelectorAll(arguments[0])].map(element => element.href || element.src)"
    addresses = {urldefrag(address).url for address in driver.execute_script(script, "a, img, video")}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert len(addresses) > 20
    for address in addresses:
        assert address.startswith(site)
        with opener.open(address) as response:
            assert response.status == 200
    assert driver.get_log("browser") == []


def test_in_a_browser_contents_lead_to_sections(opened):
    driver = opened()
    links = driver.find_elements("css selector", ".contents a")
    assert len(links) == 3
    for link in links:
        link.click()
        target = driver.execute_script("return document.querySelector(':target h2').textContent")
        assert target == link.text


def test_on_a_phone_wide_tables_scroll_and_the_page_does_not(opened):
    driver = opened(width=360)
    page, boxes = driver.execute_script(
        """const size = element => [element.scrollWidth, element.clientWidth];
        return [size(document.documentElement), [...document.querySelectorAll(".scroll, pre")].map(size)]"""
    )
    assert page[1] == 360 and page[0] <= page[1]
    assert max(width - seen for width, seen in boxes) > 100


def test_the_curves_are_drawn_by_task_and_method_with_the_values_under_the_pointer(chromium, site_with_curves):
    chromium.get(site_with_curves)
    assert not chromium.find_element("css selector", "#study .chart").is_displayed()
    chromium.find_element("css selector", "#study .curves summary").click()
    chart = chromium.find_element("css selector", "#study .chart")
    lines = "return [...document.querySelectorAll('#study .chart path[fill=none]')].map(path => path.getAttribute('d'))"
    Select(chart.find_element("tag name", "select")).select_by_visible_text("minatar/breakout")
    breakout = chromium.execute_script(lines)
    assert len(breakout) == 2 and breakout[0] != breakout[1]
    Select(chart.find_element("tag name", "select")).select_by_visible_text("atari/Pong")
    pong = chromium.execute_script(lines)
    assert len(pong) == 4 and not set(pong) & set(breakout)  # with the published curves
    logarithmic, one, two, *published = chart.find_elements("css selector", "input")
    assert logarithmic.is_selected()  # the published curves are a hundred times as long
    for each in published:
        each.click()
    assert len(chromium.execute_script(lines)) == 2
    Select(chart.find_element("tag name", "select")).select_by_visible_text("minatar/breakout")
    assert not chart.find_element("css selector", "input").is_selected()
    ActionChains(chromium).move_to_element(chart.find_element("tag name", "svg")).perform()
    says = chart.find_element("tag name", "output").text
    steps, value, twice = re.fullmatch(r"([\d.]+) k steps · one: ([\d.]+) · two: ([\d.]+)", says).groups()
    # The return is 1 at 10,000 steps and one more every 10,000.
    assert float(value) == pytest.approx(float(steps) / 10, abs=0.1)
    assert float(twice) == pytest.approx(2 * float(value), abs=0.1)
    for box in chart.find_elements("css selector", ".methods input"):
        box.click()
        assert chromium.execute_script("return document.activeElement === arguments[0]", box)
    assert chromium.execute_script(lines) == []
    ActionChains(chromium).move_to_element(chart).move_to_element(chart.find_element("tag name", "svg")).perform()
    assert chart.find_element("tag name", "output").text == ""
    link = chromium.find_element("css selector", ".verdicts a")
    assert link.get_attribute("href").endswith("#study")
    assert chromium.get_log("browser") == []


def test_on_a_phone_curves_are_drawn_for_its_width(opened, chromium, site_with_curves):
    opened(width=400)
    chromium.get(site_with_curves)
    chromium.find_element("css selector", "#study .curves summary").click()
    box = chromium.find_element("css selector", "#study .chart svg").rect
    assert box["width"] < 400 and box["height"] == 380  # not scaled, nor is its text
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 400


def test_a_link_to_a_collapsed_section_opens_it(chromium, tmp_path):
    write_evidence(tmp_path / "check", Evidence("curves", "Check", ("Text",), "command", diagnostic=True))
    with served(tmp_path) as address:
        chromium.get(address)
        text = chromium.find_element("css selector", "#check .path")
        assert not text.is_displayed()
        chromium.find_element("css selector", ".contents a").click()
        assert text.is_displayed()


def test_without_scripts_the_page_shows_the_images(chromium, site):
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get(site)
        assert chromium.find_elements("css selector", ".chart") == []
        assert len(chromium.find_elements("css selector", "figure img")) == 3
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def relative_luminance(colour):
    channels = np.array([float(text) for text in re.findall(r"[\d.]+", colour)][:3]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4) @ (
        0.2126,
        0.7152,
        0.0722,
    )


def test_text_stands_out_in_light_and_in_dark(opened):
    grounds = {}
    for scheme in ("light", "dark"):
        driver = opened(scheme=scheme)
        grounds[scheme] = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        pairs = driver.execute_script(
            """const written = [...document.body.querySelectorAll("*")].filter(
                element => [...element.childNodes].some(node => node.nodeType == 3 && node.data.trim()));
            return written.map(element => {
                let ground = element;
                while (getComputedStyle(ground).backgroundColor == "rgba(0, 0, 0, 0)") ground = ground.parentElement;
                return [element.outerHTML, getComputedStyle(element).color, getComputedStyle(ground).backgroundColor];
            })"""
        )
        assert len(pairs) > 50
        for element, *colours in pairs:
            dark, light = sorted(relative_luminance(colour) for colour in colours)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (scheme, element)  # WCAG 2 AA
    assert relative_luminance(grounds["light"]) > 0.9 and relative_luminance(grounds["dark"]) < 0.1


def test_a_picture_of_the_page_is_not_blank(opened, tmp_path):
    assert opened().save_screenshot(str(tmp_path / "page.png"))
    pixels = imageio.imread(tmp_path / "page.png")[..., :3]
    assert pixels.shape[1] >= 1280
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
