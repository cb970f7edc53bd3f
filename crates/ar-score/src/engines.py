#!/usr/bin/env python3
"""Asks search engines of the web, which need no key, and prints the addresses that they find.

    python3 engines.py --engine brave --site arxiv.org kv cache      prints what it finds for these words
    python3 engines.py --engine google --urls kv cache               prints the page to fetch, and fetches none
    ar's question on standard input                                  prints a line of JSON for each result

Only Python's standard library is used. The result page of an engine is no interface: it changes, and some answer a
script with a riddle, or with a page that a browser has to fill in: `--urls` helps there. Standard error names an
engine that finds nothing, or that lacks an operator or a filter of time. AR_SEARCH_BRAVE replaces the address of brave,
and so on; `{query}` stands for the words.
"""

import argparse
import base64
import html.parser
import http.client
import json
import os
import re
import sys
import time
import urllib.parse
import urllib.request

COUNT = 10  # results of each engine
WORDS = 8  # words of a question that are searched for, in scripts with spaces
CHARACTERS = 38  # characters of a question in other scripts: Baidu takes no more
SHOWN = 300  # characters of a result's text
HEADED = 3  # links in headings by which a page shows that its results are headings
SECONDS = 20  # patience with each engine
LARGEST = 4 * 1024 * 1024  # bytes of an answer that are read
AGENT = "Mozilla/5.0 (X11; Linux x86_64) autoresearch engines.py"
DAY = 86400
DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
LETTERS = {"day": "d", "week": "w", "month": "m", "year": "y"}

# How words are narrowed, by the option that asks for it.
OPERATORS = {"site": "site:{}", "filetype": "filetype:{}", "phrase": '"{}"', "exclude": "-{}"}
SOME = {name: OPERATORS[name] for name in ("site", "phrase", "exclude")}

# Words that most questions have and few answers.
COMMON = set(
    "a about all an and any are as at be best between by can change common compare cover do does each find for from "
    "good has have how in into is it its less more most name new not of on or other should so some such than that "
    "the their them then there these they this to toward towards try use used using was were what when where which "
    "who why will with would".split()
)


def period(form, values):
    """A filter of time in this form, with a value for each period that the engine knows."""
    return {since: form.format(value) for since, value in values.items()}


def seconds(form):
    """A filter of time between two moments in seconds since 1970."""
    now = int(time.time())
    return {since: form.format(since=since, start=now - days * DAY, end=now) for since, days in DAYS.items()}


TODAY = int(time.time()) // DAY
QDR = period("&tbs=qdr:{}", LETTERS)
BING = period("&filters=ex1%3a%22ez{}%22", {"day": 1, "week": 2, "month": 3, "year": f"5_{TODAY - 365}_{TODAY}"})
FIRST = {"day": 1, "week": 2, "month": 3, "year": 4}

# Each engine: the address of its result page, the operators that it documents, and its filters of time, by period.
ENGINES = {
    "baidu": (
        "https://www.baidu.com/s?wd={query}",
        OPERATORS,
        seconds("&gpc=stf%3D{start}%2C{end}%7Cstftype%3D1"),
    ),
    "bing-cn": ("https://cn.bing.com/search?q={query}&ensearch=0", OPERATORS, BING),
    "bing": ("https://www.bing.com/search?q={query}", OPERATORS, BING),
    "360": ("https://www.so.com/s?q={query}", OPERATORS, period("&adv_t={}", LETTERS)),
    "sogou": (
        "https://www.sogou.com/web?query={query}",
        OPERATORS,
        period("&s_from=inttime_{}&tsn=1", {since: since for since in DAYS}),
    ),
    "wechat": ("https://weixin.sogou.com/weixin?type=2&query={query}", {}, period("&tsn={}", FIRST)),
    "toutiao": (
        "https://so.toutiao.com/search?dvpf=pc&pd=information&keyword={query}",
        {},
        seconds("&filter_period={since}&min_time={start}&max_time={end}"),
    ),
    "google": ("https://www.google.com/search?q={query}", OPERATORS, QDR),
    "google-hk": ("https://www.google.com.hk/search?q={query}", OPERATORS, QDR),
    "duckduckgo": ("https://html.duckduckgo.com/html/?q={query}", OPERATORS, period("&df={}", LETTERS)),
    "yahoo": (
        "https://search.yahoo.com/search?p={query}",
        OPERATORS,
        period("&btf={}", {since: LETTERS[since] for since in ("day", "week", "month")}),
    ),
    "startpage": ("https://www.startpage.com/sp/search?query={query}", OPERATORS, period("&with_date={}", LETTERS)),
    "brave": ("https://search.brave.com/search?q={query}&source=web", OPERATORS, period("&tf=p{}", LETTERS)),
    "ecosia": ("https://www.ecosia.org/search?method=index&q={query}", OPERATORS, {}),
    "qwant": (
        "https://www.qwant.com/?t=web&q={query}",
        SOME,
        period("&freshness={}", {since: since for since in ("day", "week", "month")}),
    ),
    "wolframalpha": ("https://www.wolframalpha.com/input?i={query}", {}, {}),
}
DEFAULT = ["duckduckgo", "bing"]

# The parameters of a redirection that have the address that it leads to. Where it is encrypted, these attributes of the
# link, or of the element around it, may have it.
PARAMETERS = ("uddg", "url", "q", "u", "RU")
ATTRIBUTES = ("mu", "data-landurl", "data-mdurl")
REDIRECTION = r"/link$|/redirect/"

# Headings, most of whose links are results; elements without results, those that may begin within a word, and sites that pages
# of engines link to beside results.
HEADINGS = ("h1", "h2", "h3", "h4")
SKIPPED = ("script", "style", "nav", "footer")
WITHIN = ("b", "em", "i", "mark", "strong")
OWNERS = (["360", "com"], ["360", "cn"], ["miit", "gov", "cn"], ["12377", "cn"])


def one_line(text):
    """The text on one line, as long as it is shown."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + "…"


def keywords(question):
    """What a question is about: all of it in a script without spaces, otherwise its less common words, in order."""
    if re.search("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", question):
        return " ".join(re.findall(r"[\w+#.-]+", question))[:CHARACTERS]
    found = []
    for word in re.findall(r"[^\W_][\w+#.-]*", question):
        word = word.rstrip(".-")
        if word.lower() not in COMMON and word.lower() not in (known.lower() for known in found):
            found.append(word)
    return " ".join(found[:WORDS])


def address(engine, words, asked):
    """The result page for these words, and what was asked for and the engine does not have."""
    page, operators, periods = ENGINES[engine]
    lacks, query = [], [words]
    for name in OPERATORS:
        for value in getattr(asked, name):
            if name in operators:
                query.append(operators[name].format(value))
            else:
                lacks.append(f"--{name} {value}")
    if asked.since:
        page += periods.get(asked.since, "")
        lacks += [] if asked.since in periods else [f"--since {asked.since}"]
    page = os.environ.get("AR_SEARCH_" + engine.upper().replace("-", "_"), page)
    return page.replace("{query}", urllib.parse.quote(" ".join(query).strip(), safe="")), lacks


def site(url):
    """The end of a host that all hosts of one owner have."""
    parts = (urllib.parse.urlsplit(url).hostname or "").split(".")
    return parts[-3 if parts[-2:-1] and parts[-2] in ("ac", "co", "com", "edu", "gov", "net", "org") else -2 :]


def target(url, page):
    """The address that a redirection leads to, if it names one on another host than that of the page."""
    parts = urllib.parse.urlsplit(url)
    values = urllib.parse.parse_qs(parts.query)
    values |= {name: [urllib.parse.unquote(value)] for name, value in re.findall(r"/([A-Z]+)=([^/]+)", parts.path)}
    for value in (value for name in PARAMETERS for value in values.get(name, [])):
        if value.startswith("a1"):
            try:
                value = base64.urlsafe_b64decode(value[2:] + "=" * (-len(value[2:]) % 4)).decode()
            except ValueError:
                continue
        host = urllib.parse.urlsplit(value).hostname
        if re.match("https?://", value) and host != urllib.parse.urlsplit(page).hostname:
            return value
    return None


class Page(html.parser.HTMLParser):
    """The links of a result page, each with its text, what follows it up to the next one, and whether it is a heading."""

    def __init__(self, address):
        super().__init__()
        self.address = address
        self.found = []  # address, title, text, True for a heading
        self.headings = 0
        self.near = None  # the address in an element around the next link
        self.open = None  # True within a link, False behind one
        self.hidden = 0

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.hidden += tag in SKIPPED
        self.headings += tag in HEADINGS
        if tag in HEADINGS and self.open:
            self.found[-1][3] = True
        if tag not in WITHIN:
            self.handle_data(" ")
        named = next((values[name] for name in ATTRIBUTES if re.match("https?://", values.get(name) or "")), None)
        self.near = named or self.near
        if tag != "a" or not values.get("href"):
            return
        near, self.near = self.near, None
        try:
            url = None if self.hidden else self.result(urllib.parse.urljoin(self.address, values["href"]), near)
        except ValueError:  # an address that is none
            url = None
        self.open = True if url else None
        if url:
            self.found.append([url, "", "", self.headings > 0])

    def result(self, link, near):
        """The address of the result that a link is, if it is one. An own address is one only where it leads away."""
        url = link
        # As google.fr is google.com.
        if site(link)[:1] == site(self.address)[:1]:
            is_redirection = re.match(REDIRECTION, urllib.parse.urlsplit(link).path)
            url = target(link, self.address) or (near or link if is_redirection else "")
        return url if re.match("https?://", url) and site(url) not in OWNERS else None

    def handle_endtag(self, tag):
        self.hidden = max(0, self.hidden - (tag in SKIPPED))
        self.headings = max(0, self.headings - (tag in HEADINGS))
        if tag == "a" and self.open:
            self.open = False

    def handle_data(self, data):
        if self.open is not None and not self.hidden:
            self.found[-1][1 if self.open else 2] += data


def results(engine, page):
    """What the result page of an engine links to, the first one first, with the words of all links to it. Where several
    headings are links, the others lead to copies, translations and parts of these results."""
    own = ENGINES[engine][0]
    reader = Page(own)
    reader.feed(page)
    reader.close()
    has_headings = sum(is_heading for *_, is_heading in reader.found) >= HEADED
    found, last = {}, None
    for url, title, text, is_heading in reader.found:
        if has_headings and not is_heading and url not in found:
            url, title = last, ""
        last = url
        if url:
            found.setdefault(url, []).extend(words.strip() for words in (title, text) if words.strip())
    # A link without words is a picture.
    found = [(url, one_line(": ".join(texts))) for url, texts in found.items() if texts]
    return [{"text": text, "url": url, "engine": engine} for url, text in found[:COUNT]]


def fetch(page):
    """The text of a page."""
    request = urllib.request.Request(page, headers={"User-Agent": AGENT, "Accept-Language": "en, zh;q=0.9"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return answer.read(LARGEST).decode(answer.headers.get_content_charset() or "utf-8", "replace")


def arguments():
    """The options and words of the command line."""
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    engines = f"{', '.join(ENGINES)}; several; default: {' '.join(DEFAULT)}"
    parser.add_argument("--engine", action="append", choices=ENGINES, metavar="NAME", help=engines)
    for name, value, what in (
        ("site", "HOST", "only pages of this host"),
        ("filetype", "TYPE", "only files of this type, as in pdf"),
        ("phrase", "WORDS", "these words side by side"),
        ("exclude", "WORD", "no page with this word"),
    ):
        parser.add_argument("--" + name, action="append", default=[], metavar=value, help=what)
    parser.add_argument("--since", choices=DAYS, help="only pages of the last day, week, month or year")
    parser.add_argument("--urls", action="store_true", help="print the addresses of the result pages, and fetch none")
    parser.add_argument("words", nargs="*", help="words to search for; without them standard input has a question")
    return parser.parse_args()


def main():
    asked = arguments()
    text = " ".join(asked.words)
    if not asked.words:
        try:
            text = str(json.load(sys.stdin).get("question", ""))
        except (ValueError, AttributeError) as error:
            sys.exit(f"engines.py: no question on standard input: {error}")
    words = text if asked.words else keywords(text)
    if not words and not asked.phrase:
        sys.exit("engines.py: the question has no words to search for")
    found = []
    for engine in asked.engine or DEFAULT:
        page, lacks = address(engine, words, asked)
        for lacking in lacks:
            print(f"engines.py: {engine} has nothing like {lacking}, and is asked without it", file=sys.stderr)
        if asked.urls:
            print(page)
            continue
        try:
            found.append(results(engine, fetch(page)))
            if not found[-1]:
                print(f"engines.py: {engine}: no results on its page", file=sys.stderr)
        except (OSError, ValueError, LookupError, http.client.HTTPException) as error:
            print(f"engines.py: {engine}: {error}", file=sys.stderr)
    in_turns = [result for place in range(COUNT) for results in found for result in results[place : place + 1]]
    for place, result in enumerate(in_turns):
        if asked.words:
            print(f"{result['text']}\n  {result['url']}")
        else:
            print(json.dumps(result | {"score": round(1 - place / len(in_turns), 4)}, ensure_ascii=False))
    if not in_turns and not asked.urls:
        sys.exit("engines.py: nothing found")


if __name__ == "__main__":
    main()
