# Sums up a results.tsv in either dialect as JSON, one entry for each row: what awk keeps no memory for comes first.
BEGIN {
    FS = "\t"
    outcome["keep"] = outcome["improved"] = "keep"
    outcome["discard"] = outcome["rejected"] = "discard"
    outcome["crash"] = outcome["failed"] = "crash"
}
NR == 1 {
    metric = $2
    print "{\n  \"experiments\": ["
    next
}
{
    what = outcome[$4]
    value = raw = "null"
    if (what != "crash" && $2 ~ /^[-+.0-9]/) {
        value = $2 + 0
        raw = "\"" $2 "\""
    }
    text = $5
    if (text ~ /["\\]/) {
        gsub(/\\/, "\\\\", text)
        gsub(/"/, "\\\"", text)
    }
    printf "%s    {\n      \"id\": %d,\n      \"commit\": \"%s\",\n      \"value\": %s,\n      \"raw\": %s,\n      \"outcome\": \"%s\",\n      \"failure\": %s,\n      \"description\": \"%s\"\n    }", rows ? ",\n" : "", rows, $1, value == "null" ? value : $2, raw, what, what == "crash" && $3 == "oom" ? "\"oom\"" : "null", text
    count[what]++
    if (rows == 0)
        baseline = value
    if (what == "keep") {
        kept[keeps++] = rows
        number[rows] = value
        if (best == "" || value < best) {
            best = value
            at = rows
        }
        streak = 0
    } else if (++streak > longest) {
        longest = streak
        last = rows
    }
    rows++
}
END {
    print "\n  ],\n  \"kept\": ["
    for (place = 0; place < keeps; place++) {
        id = kept[place]
        printf "%s    {\"id\": %d, \"value\": %.17g, \"gain\": %s}", place ? ",\n" : "", id, number[id], place ? sprintf("%.17g", number[kept[place - 1]] - number[id]) : "null"
    }
    printf "\n  ],\n  \"metric\": \"%s\",\n", metric
    printf "  \"counts\": {\"total\": %d, \"keep\": %d, \"discard\": %d, \"crash\": %d},\n", rows, count["keep"], count["discard"], count["crash"]
    printf "  \"best\": {\"id\": %d, \"value\": %.17g},\n  \"gain\": %.17g,\n", at, best, baseline - best
    printf "  \"keep_rate\": %.17g,\n  \"longest_streak\": %d,\n  \"streak\": [%d, %d]\n}\n", (keeps - 1) / (rows - 1), longest, last - longest + 1, last
}
