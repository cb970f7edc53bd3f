# Settings of a session that this was started in are no settings of a patrol.
for name in $(env | sed -n 's/^\(AR_[A-Za-z0-9_]*\)=.*/\1/p'); do
	unset "$name"
done

# Seconds since 1970 of a moment in UTC: year, month, day, hour, minute, second. The year begins in March, so that the day
# that not every year has is its last. A leading zero would make a number octal.
seconds() {
	y=$1 m=$((1$2 - 100)) d=$((1$3 - 100))
	[ "$m" -gt 2 ] || y=$((y - 1)) m=$((m + 12))
	days=$((365 * y + y / 4 - y / 100 + y / 400 + (153 * (m - 3) + 2) / 5 + d - 719469))
	echo $((((days * 24 + 1$4 - 100) * 60 + 1$5 - 100) * 60 + 1$6 - 100))
}

# The moment of the last patrol as such words, if its file can be read.
last() {
	two='\([0-9][0-9]\)'
	sed -n "s/.*\"at\": *\"\([0-9][0-9]$two\)-$two-${two}T$two:$two:${two}[^0-9].*/\1 \3 \4 \5 \6 \7/p" \
		"$folder/patrol.json" 2>/dev/null | sed -n 1p
}

# There is one of these at a time: a folder is made by one process only.
mkdir -p "$folder" || exit 1
lock=$folder/resident-sh.lock
if ! mkdir "$lock" 2>/dev/null; then
	other=$(cat "$lock/process" 2>/dev/null)
	other=${other:-0}
	case $({ tr '\0' ' ' <"/proc/$other/cmdline" || ps -p "$other" -o args=; } 2>/dev/null) in
	*"$0"*)
		[ "$other" = $$ ] || {
			echo "another resident guard is running: process $other" >&2
			exit 5
		}
		;;
	esac
fi
# In one step, or two at once would write one number over the other.
{ echo $$ >"$lock/$$" && mv -f "$lock/$$" "$lock/process"; } || exit 1

# Of several that find the lock of a killed one, the last to write its number stays.
stay() {
	holder=$(cat "$lock/process" 2>/dev/null)
	[ "$holder" = $$ ] || {
		echo "another resident guard has taken the lock: process ${holder:-unknown}" >&2
		exit 5
	}
}
sleep 1
stay

seen='' unchanged=0 pause=0
while :; do
	sleep "$wake"
	stay
	pause=$((pause - wake))
	now=$(last)
	if [ "$now" = "$seen" ]; then
		unchanged=$((unchanged + wake))
	else
		seen=$now unchanged=0
	fi
	age=$beat
	if [ -n "$now" ]; then
		# shellcheck disable=SC2046,SC2086 # They are words.
		age=$(($(seconds $(date -u '+%Y %m %d %H %M %S')) - $(seconds $now)))
		[ "$age" -ge "$unchanged" ] || age=$unchanged
	fi
	if [ "$age" -ge "$beat" ] && [ "$pause" -le 0 ]; then
		patrol </dev/null >"$folder/patrol.log" 2>&1 &
		process=$! waited=0 step=1
		# A patrol that takes longer than the beat is terminated.
		while [ "$waited" -lt "$beat" ] && kill -0 "$process" 2>/dev/null; do
			sleep "$step"
			waited=$((waited + step))
		done
		if kill -TERM "$process" 2>/dev/null; then
			sleep 5
			kill -KILL "$process" 2>/dev/null
		fi
		wait "$process"
		case $? in
		0 | 4) pause=$beat ;;
		*) pause=$((beat / 4)) ;;
		esac
	fi
done
