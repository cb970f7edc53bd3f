#!/bin/sh
# Pushes what happens to a phone or a chat:
#   PUSH_URL=https://ntfy.sh/YOUR-TOPIC ar run --on-event "sh ~/push.sh"
# PUSH_URL     gets the sentence as the body, as ntfy and its like want it
# WEBHOOK_URL  gets {"text": "…"}, as Slack, Mattermost and their like want it
# PUSH_EVENTS  the events [default: best flagged outage escalated stopped]
# Needs curl and jq.
set -eu

case " ${PUSH_EVENTS:-best flagged outage escalated stopped} " in
*" $AR_EVENT "*) ;;
*) exit 0 ;;
esac
event=$(cat)

post() {
    curl -fsS --max-time 20 --output /dev/null --data-binary @- "$@"
}

if [ -n "${PUSH_URL-}" ]; then
    printf '%s\n' "$event" | jq -j .text | post -H "Title: ar: $AR_EVENT in $AR_TAG" "$PUSH_URL"
fi
if [ -n "${WEBHOOK_URL-}" ]; then
    printf '%s\n' "$event" | jq -c '{text}' | post -H "Content-Type: application/json" "$WEBHOOK_URL"
fi
