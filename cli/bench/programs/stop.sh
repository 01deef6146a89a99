# Stop, with an agent that supervises the session: it asks tmux for the session's name and screen, finds the
# agent in the registry, and reports Claude's last words, if they are new. The report and the words are on
# the disk before the hook ends, and a process that stays behind posts the report.
# It does not try again, and it takes any "error" on the screen for one.
set -euo pipefail
snapshot=$(tmux display-message -p -t "$TMUX_PANE" '#S' \; capture-pane -p -t "$TMUX_PANE" -S -100)
found=$(jq -c --arg session "${snapshot%%$'\n'*}" --arg screen "${snapshot#*$'\n'}" \
  --slurpfile registry "$GCHAT_WAKE_REGISTRY" '
    select(.stop_hook_active | not)
    | select(any($registry[0].agents[]; .tmux_session_name == $session and .enabled != false))
    | (if $screen | test("enter to select|to navigate"; "i") then "menu"
       elif $screen | test("do you want to"; "i") then "permission"
       elif $screen | test("error|failed"; "i") then "error"
       else "idle" end) as $state
    | .session_id, .last_assistant_message,
      {text: "[Wake] \($session)\nresponse_complete, \($state)\n\n\(.last_assistant_message)"}')
[ -n "$found" ] || exit 0
{ read -r session; read -r words; read -r payload; } <<<"$found"
known=$HOME/${session//\"/}.txt message=$HOME/message-$$.json
if [ -e "$known" ] && [ "$(<"$known")" = "$words" ]; then exit 0; fi
printf '%s\n' "$payload" >"$message.tmp"
printf '%s\n' "$words" >"$known.tmp"
sync "$message.tmp" "$known.tmp" # on macOS sync takes no file, and writes all that the system holds
mv "$message.tmp" "$message"
mv "$known.tmp" "$known"
{
  curl -s --fail -o /dev/null --max-time 3 -H 'Content-Type: application/json; charset=UTF-8' \
    -d "$payload" "$GOOGLE_CHAT_WEBHOOK_URL"
  rm "$message"
} </dev/null >/dev/null 2>&1 &
