#!/usr/bin/env bash
# The stop hook as the first design has it: jq for each field, tail and jq for what Claude said, grep for the screen's state,
# diff for what is new on it, openclaw in the background. It retries nothing and sends the same thing twice. Here to be
# compared with; nobody should use it. It writes no log, which the first design does: that would only make it slower.
set -uo pipefail
event=$(cat)

[ "$(jq -r '.stop_hook_active // false' <<<"$event" 2>/dev/null)" != true ] || exit 0
[ -n "${TMUX:-}" ] || exit 0
session=$(tmux display-message -p '#S' 2>/dev/null)
[ -n "$session" ] || exit 0

registry=${GCHAT_WAKE_REGISTRY:-}
[ -f "$registry" ] || exit 0
agent=$(jq -c --arg session "$session" \
  'first(.agents[] | select(.tmux_session_name == $session and .enabled != false))' "$registry" 2>/dev/null)
[ -n "$agent" ] || exit 0
agent_id=$(jq -r '.agent_id // ""' <<<"$agent")
openclaw_session_id=$(jq -r '.openclaw_session_id // ""' <<<"$agent")
[ -n "$openclaw_session_id" ] || exit 0

setting() { # NAME DEFAULT: the agent's own, else everybody's, else what is built in
  jq -r --argjson agent "$agent" --arg name "$1" --arg default "$2" \
    '$agent.hook_settings[$name] // .hook_settings[$name] // $default' "$registry" 2>/dev/null || echo "$2"
}
pane_capture_lines=$(setting pane_capture_lines 100)
context_pressure_threshold=$(setting context_pressure_threshold 50)
hook_mode=$(setting hook_mode async)

screen=$(tmux capture-pane -p -t "=$session:" -S "-$pane_capture_lines" 2>/dev/null)

source "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/hook-utils.sh"
transcript=$(jq -r '.transcript_path // ""' <<<"$event" 2>/dev/null)
words=$(last_words "$transcript")

if grep -Eiq 'enter to select|↑/↓ to navigate' <<<"$screen"; then
  state=menu
elif grep -Eiq 'do you want to (proceed|allow)|permission' <<<"$screen"; then
  state=permission_prompt
elif grep -Eiq '\? for shortcuts|waiting for your input' <<<"$screen"; then
  state=idle
elif grep -Eiq 'error|failed' <<<"$screen"; then
  state=error
else
  state=working
fi

percent=$(tail -5 <<<"$screen" | grep -oE '[0-9]{1,3}%' | tail -1)
percent=${percent%\%}
if [ -z "$percent" ]; then
  pressure=unknown
elif [ "$percent" -ge 80 ]; then
  pressure="$percent% [CRITICAL]"
elif [ "$percent" -ge "$context_pressure_threshold" ]; then
  pressure="$percent% [WARNING]"
else
  pressure="$percent% [OK]"
fi

content=$words
[ -n "$content" ] || content=$(new_lines "$session" "$(tail -40 <<<"$screen")")

now=$(date -u +%FT%TZ)
read -r -d '' message <<EOF
[SESSION IDENTITY]
agent_id: $agent_id
tmux_session_name: $session
timestamp: $now

[TRIGGER]
type: response_complete

[CONTENT]
$content

[STATE HINT]
state: $state

[CONTEXT PRESSURE]
$pressure

[AVAILABLE ACTIONS]
menu-driver.sh $session choose <n>
menu-driver.sh $session type <text>
menu-driver.sh $session clear_then <command>
menu-driver.sh $session enter
menu-driver.sh $session esc
menu-driver.sh $session submit
menu-driver.sh $session snapshot
EOF

if [ "$hook_mode" = bidirectional ]; then
  openclaw agent --session-id "$openclaw_session_id" --message "$message" --json 2>/dev/null |
    jq -c 'select(.decision == "block") | {decision, reason}' 2>/dev/null
else
  openclaw agent --session-id "$openclaw_session_id" --message "$message" </dev/null >/dev/null 2>&1 &
fi
exit 0
