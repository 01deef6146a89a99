# A message sent: it is on the disk until Chat has it.
# It does not try again, keep to Chat's limits, or keep what it sends from being read as markup.
set -euo pipefail
folder=$HOME/outbox
[ -d "$folder" ] || mkdir -p "$folder"
path=$folder/$$.json
jq -cn --arg session "$CLAUDE_SESSION_ID" --arg text "${!#}" \
  '{text: "[Done] \($session), \(now | todate)\n\n\($text)"}' >"$path.tmp"
sync "$path.tmp" # on macOS sync takes no file, and writes all that the system holds
mv "$path.tmp" "$path"
curl -s --fail -o /dev/null --max-time 3 -H 'Content-Type: application/json; charset=UTF-8' -d "@$path" \
  "$GOOGLE_CHAT_WEBHOOK_URL"
rm "$path"
echo sent
