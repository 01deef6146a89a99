#!/usr/bin/env bash
# What gchat-send does, as the first design has it: a header, the JSON by jq, the post by curl. It keeps nothing, retries
# nothing and neutralises nothing. Here to be compared with; nobody should use it.
set -euo pipefail
type=plain
[ "${1:-}" = --type ] && { type=$2; shift 2; }
message=${1:?message}
url=${GOOGLE_CHAT_WEBHOOK_URL:?no webhook URL}
session=${CLAUDE_SESSION_ID:-${TMUX_PANE:-unknown}}
case $type in
task_completion) prefix='[Done]' ;;
progress_update) prefix='[Progress]' ;;
error) prefix='[Error]' ;;
*) prefix= ;;
esac
text=$message
[ -z "$prefix" ] || text="$prefix $session | $(date '+%Y-%m-%d %H:%M:%S')"$'\n\n'"$message"
payload=$(jq -n --arg text "$text" '{text: $text}')
status=$(curl -s -o /dev/null -w '%{http_code}' --connect-timeout 3 --max-time 5 -H 'Content-Type: application/json' -d "$payload" "$url")
[[ $status == 2* ]] || exit 2
