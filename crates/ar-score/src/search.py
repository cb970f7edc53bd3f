#!/usr/bin/env python3
"""Searches arXiv and Wikipedia, which need no key.

    python3 search.py kv cache memory     prints what it finds for these words
    ar's question on standard input       prints a line of JSON for each source

Only Python's standard library is used. AR_SEARCH_ARXIV and AR_SEARCH_WIKIPEDIA replace the addresses of the
interfaces; `{query}` and `{count}` stand for the words and the number of results.
"""

import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

ARXIV = os.environ.get(
    "AR_SEARCH_ARXIV",
    "https://export.arxiv.org/api/query?search_query={query}&max_results={count}&sortBy=relevance",
)
WIKIPEDIA = os.environ.get(
    "AR_SEARCH_WIKIPEDIA",
    "https://en.wikipedia.org/w/api.php?action=query&list=search&format=json&srlimit={count}&srsearch={query}",
)

COUNT = 8  # results of each interface
WORDS = 8  # words of a question that are searched for
SHOWN = 400  # characters of a summary
SECONDS = 20  # patience with each interface
PAUSE = 3  # seconds between two questions to the same interface, as arXiv asks for
LARGEST = 4 * 1024 * 1024  # bytes of an answer that are read

# Words that most questions have and few answers.
COMMON = set(
    "a about all an and any are as at be best between by can change common compare cover do does each find for from "
    "good has have how in into is it its less more most name new not of on or other should so some such than that "
    "the their them then there these they this to toward towards try use used using was were what when where which "
    "who why will with would".split()
)
ATOM = "{http://www.w3.org/2005/Atom}"


def one_line(text):
    """The text on one line, without tags, as long as it is shown."""
    text = re.sub(r"<[^>]*>", "", text or "")
    for name, sign in (("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&#039;", "'"), ("&amp;", "&")):
        text = text.replace(name, sign)
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + "…"


def keywords(question):
    """The words of a question that say what it is about, in their order."""
    found = []
    for word in re.findall(r"[^\W_][\w+#.-]*", question):
        word = word.rstrip(".-")
        if word.lower() not in COMMON and word.lower() not in (known.lower() for known in found):
            found.append(word)
    return found[:WORDS]


def fetch(address, query):
    """The answer of an interface."""
    address = address.replace("{query}", urllib.parse.quote(query)).replace("{count}", str(COUNT))
    request = urllib.request.Request(address, headers={"User-Agent": "autoresearch search.py (python-urllib)"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return answer.read(LARGEST)


def arxiv(words):
    """Papers, the most relevant first."""
    feed = ElementTree.fromstring(fetch(ARXIV, " AND ".join("all:" + word for word in words)))
    for entry in feed.iter(ATOM + "entry"):
        address = (entry.findtext(ATOM + "id") or "").strip().replace("http://", "https://", 1)
        title = one_line(entry.findtext(ATOM + "title"))
        # An error is an entry, too.
        if not title or "/api/errors" in address:
            continue
        year = (entry.findtext(ATOM + "published") or "")[:4]
        text = f"{title} ({year}): {one_line(entry.findtext(ATOM + 'summary'))}"
        yield {"text": text, "url": address, "engine": "arxiv"}


def wikipedia(words):
    """Articles, the most relevant first."""
    answer = json.loads(fetch(WIKIPEDIA, " ".join(words)))
    if "error" in answer:
        raise ValueError(answer["error"].get("info", "an error without a text"))
    for page in answer.get("query", {}).get("search", []):
        address = "https://en.wikipedia.org/wiki/" + urllib.parse.quote(page["title"].replace(" ", "_"))
        yield {"text": f"{page['title']}: {one_line(page.get('snippet'))}", "url": address, "engine": "wikipedia"}


def search(words):
    """What both find, in turns; and why one of them failed."""
    found, failed = [], []
    for engine in (arxiv, wikipedia):
        results = []
        # Fewer words find more, where all of them together find nothing.
        counts = sorted({len(words), (len(words) + 1) // 2, min(2, len(words))}, reverse=True)
        for count in counts:
            if count != counts[0]:
                time.sleep(PAUSE)
            try:
                results = list(engine(words[:count]))
            except (OSError, ValueError, KeyError, TypeError, ElementTree.ParseError) as error:
                failed.append(f"{engine.__name__}: {error}")
                break
            if results:
                break
        found.append(results)
    in_turns = [result for place in range(COUNT) for results in found for result in results[place : place + 1]]
    return in_turns, failed


def main():
    asked = None
    if len(sys.argv) > 1:
        text = " ".join(sys.argv[1:])
    else:
        try:
            asked = json.load(sys.stdin)
        except ValueError as error:
            sys.exit(f"search.py: no question on standard input: {error}")
        text = str(asked.get("question", ""))
    words = keywords(text)
    if not words:
        sys.exit("search.py: the question has no words to search for")
    results, failed = search(words)
    for why in failed:
        print(f"search.py: {why}", file=sys.stderr)
    for place, result in enumerate(results):
        if asked is None:
            print(f"{result['text']}\n  {result['url']}")
        else:
            result["score"] = round(1 - place / len(results), 4)
            print(json.dumps(result, ensure_ascii=False))
    if not results:
        sys.exit("search.py: nothing found")


if __name__ == "__main__":
    main()
