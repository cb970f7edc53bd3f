#!/bin/sh
# A scripted researcher: it does what a row of its plan says for the experiment that it is called for. Its words are made
# up, and those of different claims have next to nothing in common. It searches nothing and looks at no number.
#
# A row has six numbers: the claims; how many of them, the first ones, quote what their source says; the sources that they
# cite in turn; the sub-topics that they are spread over, from the last one down; the experiment whose claims they repeat,
# or 0; and how many of their six words are new ones then.
#
# Usage: AR_EXPERIMENT=N sh night.sh PLAN

cat >/dev/null
edited=$(awk -v me="$AR_EXPERIMENT" -v plan="$1" '
    # A word of four syllables. The factors of Park and Miller make it look like chance.
    function word(n,    text, times) {
        n = n * 7919 + 1
        for (times = 0; times < 4; times++) {
            n = n * 16807 % 2147483647
            text = text substr("bcdfghjklmnprstvwz", int(n / 64) % 18 + 1, 1) substr("aeiou", int(n / 4096) % 5 + 1, 1)
        }
        return text
    }

    # Stores a source, unless it is there.
    function store(id,    path) {
        path = "sources/" id ".md"
        if ((getline line < path) < 0) {
            printf "---\nurl: https://example.org/%s\ntitle: %s\n---\n\nIt is found here: %s holds.\n", id, id, id > path
        }
        close(path)
    }

    # A claim with its citation. One that repeats another begins with the second word of that one.
    function claim(k,    text, place, at, id) {
        for (place = 0; place < 6; place++) {
            at = like ? (place + 1) % 6 : place
            text = text word(((like && at >= other ? like : me) * 16 + k) * 6 + at) (place < 5 ? " " : ". ")
        }
        id = "s" (like ? like : me) "-" k % sources
        store(id)
        return "- " text "[@" id " \"" id (k < found ? " holds" : " fails") "\"]"
    }

    BEGIN {
        while ((getline line < plan) > 0) {
            if (++row == me) split(line, numbers)
        }
        claims = numbers[1]; found = numbers[2]; sources = numbers[3]
        topics = numbers[4]; like = numbers[5]; other = numbers[6]
    }
    { print }
    /^## / {
        heading++
        for (k = 0; k < claims; k++) {
            if (heading <= topics && (k + heading) % topics == 0) print claim(k)
        }
    }
' research_artifact.md) && printf '%s\n' "$edited" >research_artifact.md
echo "experiment $AR_EXPERIMENT is written"
