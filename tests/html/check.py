#!/usr/bin/env python3
"""Opens a page of `ar report --format html` in Chromium and checks that all of it works.

    ar report --format html > page.html
    tests/html/check.py page.html SCREENSHOTS

Use a session of several pages, such as `session.py` makes. Needs `pip install playwright` and a Chromium: that of `playwright install chromium`, or the one in $CHROMIUM.
"""

import os
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGE = Path(sys.argv[1]).resolve()
SHOTS = Path(sys.argv[2])
SHOTS.mkdir(parents=True, exist_ok=True)
troubles = []


def check(holds, what):
    print("ok  " if holds else "FAIL", what)
    if not holds:
        troubles.append(what)


def opened(browser, **options):
    page = browser.new_context(**options).new_page()
    page.heard, page.asked = [], []
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("dialog", lambda dialog: (page.heard.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(PAGE.as_uri())
    return page


# How many experiments a page shows.
MOST = 200


def column(page, place, also_off=True):
    """The texts of a column, in all rows that fit the filter or only in those of the page shown."""
    rows = "#all tbody tr:not([hidden])" + ("" if also_off else ":not(.off)")
    return page.eval_on_selector_all(rows, f"rows => rows.map(row => row.cells[{place}].textContent)")


def check_paging(page, rows):
    """Turns the pages of a table that is sorted by number and not filtered."""
    pages = -(-rows // MOST)
    nav, at = page.locator("#pages"), page.locator("#pages output")
    back, on = nav.locator("button").nth(0), nav.locator("button").nth(1)
    numbers = lambda: [int(number) for number in column(page, 0, also_off=False)]
    check(pages > 1 and nav.is_visible(), f"{rows} experiments have {pages} pages")
    seen = []
    for turn in range(1, pages + 1):
        check(at.text_content() == f"page {turn} of {pages}", f"the place is said: {at.text_content()}")
        check(back.is_enabled() == (turn > 1), f"page {turn}: back is {'on' if turn > 1 else 'off'}")
        check(on.is_enabled() == (turn < pages), f"page {turn}: forward is {'on' if turn < pages else 'off'}")
        shown = page.eval_on_selector_all("details[id^=d]:not(.off)", "each => each.map(detail => Number(detail.id.slice(1)))")
        has_detail = [n for n in numbers() if page.locator(f"#d{n}").count()]
        check(sorted(shown) == has_detail, f"page {turn} shows the details of its own experiments: {len(shown)}")
        seen += numbers()
        if turn < pages:
            on.click()
    check(seen == list(range(rows)), "the pages have each experiment once, in order")
    page.screenshot(path=SHOTS / "last-page.png", full_page=False)
    page.locator("#all th button").nth(2).click()
    values = [float(value) for value in column(page, 2, also_off=False) if value]
    everything = sorted(float(value) for value in column(page, 2) if value)
    check(at.text_content() == f"page 1 of {pages}" and values == everything[: len(values)],
          "sorting turns to the first page of all experiments")
    page.locator("#all th button").nth(0).click()
    on.click()
    page.fill("input[type=search]", "experiment 7")
    check(0 < len(numbers()) <= MOST and numbers() == [int(number) for number in column(page, 0)][:MOST],
          "a filter turns to the first page of what fits")
    page.fill("input[type=search]", "")
    for outcome in ["discard", "crash", "refused"]:
        box = page.locator(f"input[value={outcome}]")
        if box.count():
            box.uncheck()
    check(nav.is_visible() == (len(column(page, 0)) > MOST), "what fits on one page has no pages to turn")
    for outcome in ["discard", "crash", "refused"]:
        box = page.locator(f"input[value={outcome}]")
        if box.count():
            box.check()
    hidden = page.evaluate("[...document.querySelectorAll('#all tbody tr')].at(-1).querySelector('a').getAttribute('href')")
    page.evaluate(f"location.hash = {hidden!r}")
    page.wait_for_timeout(100)
    check(page.locator(f"{hidden} pre, {hidden} dl").first.is_visible(), f"a link leads to an experiment of another page: {hidden}")
    page.emulate_media(media="print")
    printed = page.eval_on_selector_all("#all tbody tr", "rows => rows.filter(row => row.offsetParent !== null).length")
    check(printed == rows, f"all pages are printed: {printed} of {rows} rows")
    page.emulate_media(media="screen")


def main(browser):
    page = opened(browser, viewport={"width": 1280, "height": 900})
    check(page.asked == [PAGE.as_uri()], f"nothing but the page is asked for: {page.asked}")
    rows = len(column(page, 0))
    page.screenshot(path=SHOTS / "desktop.png")

    head = page.locator("#all th", has_text="#").first
    page.locator("#all th button").nth(2).focus()
    page.keyboard.press("Enter")
    values = [float(value) for value in column(page, 2) if value]
    check(values == sorted(values) and len(values) > 1, "the keyboard sorts by value, upwards first")
    check(column(page, 2)[: len(values)] == [v for v in column(page, 2) if v], "rows without a value come last")
    page.keyboard.press("Enter")
    values = [float(value) for value in column(page, 2) if value]
    check(values == sorted(values, reverse=True), "and downwards then")
    check(page.locator("#all th[aria-sort=descending]").count() == 1, "aria-sort says so")
    head.locator("button").click()
    check(column(page, 0) == [str(number) for number in range(rows)], "and back by number")
    check_paging(opened(browser, viewport={"width": 1280, "height": 900}), rows)

    page.uncheck("input[value=discard]")
    page.fill("input[type=search]", "experiment")
    kinds = set(column(page, 1))
    check("discard" not in kinds and len(kinds) > 0, f"outcomes and words choose rows: {kinds}")
    shown = page.locator("#filter output").text_content()
    check(shown == f"{len(column(page, 1))} of {rows}", f"how many are shown is said: {shown}")
    page.locator("#filter").scroll_into_view_if_needed()
    page.screenshot(path=SHOTS / "filtered.png")
    page.fill("input[type=search]", "")
    page.check("input[value=discard]")

    link = page.locator("#all tbody a").nth(20)
    target = link.get_attribute("href")
    link.click()
    check(page.locator(f"{target} pre").first.is_visible(), "a number leads to what is known of it, opened")
    page.screenshot(path=SHOTS / "detail.png")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    check(page.locator("script").count() == 1 and page.locator("img").count() == 0, "no markup came from others")
    check(page.heard == [], f"nothing is said on the console: {page.heard[:3]}")
    wide = page.evaluate("document.documentElement.scrollWidth")
    check(wide <= 1280, f"with all opened the page is {wide} wide on 1280")

    for name, scheme in [("phone", "light"), ("phone-dark", "dark")]:
        page = opened(browser, viewport={"width": 390, "height": 844}, color_scheme=scheme, is_mobile=True)
        wide = page.evaluate("document.documentElement.scrollWidth")
        check(wide <= 390, f"{name}: the page is {wide} wide on 390")
        page.screenshot(path=SHOTS / f"{name}.png")
        parts = "[...document.querySelectorAll('main > *')].map(part => [part.getBoundingClientRect().top, part.className])"
        first = min(page.evaluate(parts))[1]
        check(first == "course" and page.locator(".course .key li").first.is_visible(), f"{name}: the chart is first, with its legend")
        cut = page.evaluate(
            "[...document.querySelectorAll('.part td')].filter(cell => cell.getBoundingClientRect().right > 390).length"
        )
        check(cut == 0, f"{name}: {cut} cells of the parts are off the screen")
        gone = page.evaluate(
            "(([box, mark]) => mark.left < box.left || mark.right > box.right)(['.wide', '.chart .keep:last-of-type']"
            ".map(each => document.querySelector(each).getBoundingClientRect()))"
        )
        check(not gone, f"{name}: the best experiment is in view in the chart")
        crossing = page.evaluate(
            "(boxes => boxes.filter((one, place) => boxes.slice(place + 1).some(other => one.left < other.right - 1 &&"
            " other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1)).length)"
            "([...document.querySelectorAll('.chart text')].map(text => text.getBoundingClientRect())"
            ".filter(box => box.width > 0))"
        )
        check(crossing == 0, f"{name}: {crossing} texts of the chart lie on others")
        page.evaluate("[...document.querySelectorAll('details')].slice(0, 40).forEach(each => each.open = true)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        check(wide <= 390, f"{name}: with details opened it is {wide} wide")
        page.evaluate("document.querySelectorAll('details')[12].scrollIntoView()")
        page.screenshot(path=SHOTS / f"{name}-detail.png")
        page.evaluate("document.querySelector('#filter').scrollIntoView()")
        page.screenshot(path=SHOTS / f"{name}-table.png")

    page = opened(browser, viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page.screenshot(path=SHOTS / "dark.png")
    page.evaluate("document.querySelectorAll('h2')[1].scrollIntoView()")
    page.screenshot(path=SHOTS / "dark-sections.png")
    page = opened(browser, viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    check(page.locator("#all tbody tr").count() == rows, "all rows are there without script")
    check(not page.locator("#filter").is_visible(), "and nothing that would do nothing")
    page.locator("summary").nth(3).click()
    check(page.locator(".inside").nth(3).is_visible(), "details open without script")
    page.emulate_media(media="print")
    page.screenshot(path=SHOTS / "print.png")
    pdf = page.pdf(path=SHOTS / "print.pdf", format="A4")
    check(pdf.startswith(b"%PDF"), f"it prints: {len(pdf)} bytes")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or None)
    main(browser)
    browser.close()
sys.exit(f"{len(troubles)} failed" if troubles else 0)
