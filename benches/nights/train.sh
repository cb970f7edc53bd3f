# A fake training: prints the hidden truth of the tree, the sum over ideas.txt, and the noise of the run.
#
#   sh train.sh FOLDER     where the night keeps its streams and what happened, outside the repository
#
# Each run adds a line to FOLDER/runs, also one that never ends: seed and truth. FOLDER/kills lists the runs at which the loop is
# killed, and FOLDER/last is executed by the run that is the night's last.
set -eu
night=$1 seed=${AR_SEED:-1}
set -- $(awk -v seed="$seed" '
    file == "runs" { runs++; drawn++; if (!($1 in seen)) { seen[$1]; drawn++ }; next }
    file == "ideas" { truth += $2; if ($3 == "breaks") broken = 1; next }
    FNR == 1 { wanted = drawn + (seed in seen ? 1 : 2) }
    FNR == wanted { printf "%d %.9f %.9f %d\n", runs + 1, truth, truth + $1, broken }
' file=runs "$night/runs" file=ideas ideas.txt file=noise "$night/noise")
run=$1 truth=$2 value=$3 broken=$4
echo "$seed $truth" >>"$night/runs"
if grep -qx "$run" "$night/kills"; then
    : >"$night/held"
    while [ -e "$night/held" ]; do sleep 0.02; done
fi
[ "$run" -lt "$(cat "$night/limit")" ] || sh "$night/last"
if [ "$broken" = 1 ]; then
    echo "RuntimeError: shapes do not match" >&2
    exit 1
fi
echo "score: $value"
