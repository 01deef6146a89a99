# A question recorded: it is on the disk before the hook ends, and a process that stays behind posts it.
# It does not try again, read a reply, or see that the question was answered.
set -euo pipefail
read -r id </proc/sys/kernel/random/uuid 2>/dev/null || id=$(uuidgen)
{ read -r session; read -r record; read -r payload; } < <(
  jq -c --arg id "$id" --arg key "ask-user-${id:0:8}" '
    .session_id,
    {question_id: $id, session_id, asked_at: (now | todate), gchat_thread_key: $key,
      questions: .tool_input.questions, status: "pending"},
    {text: (["[AskUserQuestion] " + .session_id] + [.tool_input.questions[] | "", .question,
        (.options | to_entries[] | "\(.key + 1). \(.value.label): \(.value.description)")] | join("\n")),
      thread: {threadKey: $key}}'
)
folder=$CLAUDE_PROJECT_DIR/.claude/state/pending-questions
[ -d "$folder" ] || mkdir -p "$folder"
path=$folder/${session//\"/}-$(date +%s).json
printf '%s\n' "$record" >"$path.tmp"
sync "$path.tmp" # on macOS sync takes no file, and writes all that the system holds
mv "$path.tmp" "$path"
curl -s --fail --max-time 3 -H 'Content-Type: application/json; charset=UTF-8' -d "$payload" \
  "$GOOGLE_CHAT_WEBHOOK_URL&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD" \
  </dev/null >/dev/null 2>&1 &
