#!/usr/bin/env bash
# The same work as hook.py with bash, jq and curl, for comparison.
set -euo pipefail
event=$(cat)
id=$(cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen)
key=ask-user-${id:0:8}
session=$(jq -r .session_id <<<"$event")
tmux_session=$session
[ -z "${TMUX_PANE:-}" ] || tmux_session=$(tmux display-message -p '#{session_name}' || echo "$session")
folder=${CLAUDE_PROJECT_DIR:-$PWD}/.claude/state/pending-questions
mkdir -p "$folder"
path=$folder/$session-$(date +%s).json
jq --arg id "$id" --arg key "$key" --arg tmux "$tmux_session" --arg now "$(date -u +%FT%TZ)" \
  '{question_id: $id, session_id, tmux_session: $tmux, asked_at: $now, gchat_thread_key: $key,
    questions: [.tool_input.questions[] | . + {option_count: (.options | length)}], status: "pending"}' <<<"$event" >"$path.tmp"
sync "$path.tmp"
mv "$path.tmp" "$path"
payload=$(jq --arg key "$key" '
  {text: (["[AskUserQuestion] Session: " + .session_id, ""]
    + [.tool_input.questions[] | .header, .question, "", "Options:", (.options | to_entries[] | "\(.key + 1). \(.value.label) — \(.value.description)")]
    + ["", "Reply with the option number (e.g., \"2\") or type a custom response.", "Thread key: " + $key] | join("\n")),
   thread: {threadKey: $key}}' <<<"$event")
if curl -s -o /dev/null --fail --connect-timeout 3 --max-time 3 -H 'Content-Type: application/json; charset=UTF-8' -d "$payload" \
  "$GOOGLE_CHAT_WEBHOOK_URL&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"; then
  echo '{"decision": "approve"}'
else
  echo '{"decision": "approve", "systemMessage": "webhook POST failed"}'
fi
