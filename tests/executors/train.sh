# A fake training: `sh train.sh FILE`. Notes in FILE that it is executed, and prints a loss that every idea makes worse,
# so that each experiment has one run.
set -eu
printf '%s\t%s\t%s\t%s\n' "$AR_EXPERIMENT" "$$" "$(date +%s.%N)" "$AR_RUN_DIR" >>"$1"
sleep 2
echo "loss: $(ls ideas | wc -l)"
