"""The page, as a person's browser shows it."""

import os
import shutil

import pytest
from rows import toy_rows

from cameraready.claims.report import duration, moment, render, write_report
from cameraready.claims.results import FigureFiles, Results
from cameraready.claims.runner import Options, run_experiments

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture
def folder(tmp_path, toys):
    rows = toy_rows("good", "raises", "exits")
    run_experiments(rows, tmp_path / "out", Options(budget="smoke"), catalogue=rows)
    return tmp_path / "out"


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        reason = "no chromium or google-chrome is installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


def test_the_page_in_a_browser(folder, browser):
    address = (folder / "report.html").as_uri()
    backgrounds = {}
    for scheme, width in (("light", 390), ("dark", 390), ("light", 1200), ("light", 800)):
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        complaints, requests = [], []
        page.on("console", lambda message, to=complaints: to.append(message.text))
        page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        page.on("request", lambda request, to=requests: to.append(request.url))
        page.goto(address, wait_until="load")
        assert complaints == []
        assert [url for url in requests if not url.startswith("data:")] == [address]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        backgrounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for result in Results.read(folder / "results.json").systems:
            for claim in result.claims:
                row = page.locator(f"#{result.slug} [data-claim='{claim.key}']")
                assert row.is_visible()
                text = row.inner_text().lower()
                assert claim.statement in text
                assert claim.verdict.value in text
                assert claim.note in text
                assert claim.not_testable in text
        image = page.locator("#good figure img")
        assert image.is_visible()
        assert image.evaluate("image => image.naturalWidth") > 0
        page.close()
    assert backgrounds["light"] != backgrounds["dark"]


def test_the_dark_figure_shows_in_dark_mode(folder, browser):
    shown = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto((folder / "report.html").as_uri())
        shown[scheme] = page.locator("#good figure img").evaluate("image => image.currentSrc")
        page.close()
    assert shown["light"] != shown["dark"]


def test_the_page_is_made_again_from_the_results(folder):
    before = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    assert write_report(Results.read(folder / "results.json"), folder).read_text() == before


def test_text_is_escaped_and_nothing_is_loaded(folder):
    page = (folder / "report.html").read_text()
    assert "&lt;zero&gt; &amp; small" in page
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_a_missing_figure_is_said(folder):
    results = Results.read(folder / "results.json")
    (folder / results.systems[0].figures[0].dark).unlink()
    assert "is missing" in render(results, folder)


def test_figures_outside_the_folder_are_not_read(folder, tmp_path):
    (tmp_path / "secret").write_text("secret")
    results = Results.read(folder / "results.json")
    outside = "../secret"
    results.systems[0].figures = [FigureFiles("x", "caption", outside, outside, outside)]
    assert "is missing" in render(results, folder)


def test_an_empty_page_says_so():
    empty = Results("0.1.0", "quick", 0, {}, {}, [])
    assert "No experiment has been run" in render(empty, folder=None)


def test_times_in_words():
    assert [duration(seconds) for seconds in (0.04, 59.7, 3599, 3600)] == [
        "0.0 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
    ]
    assert moment("2026-01-02T03:04:05+00:00") == "2026-01-02 03:04 UTC"
    assert moment("") == "not known"
