# A hook with nothing to do: it reads the event, looks for a question of the session, and finds none.
set -euo pipefail
session=$(jq -r .session_id)
for file in "$CLAUDE_PROJECT_DIR/.claude/state/pending-questions/$session"*.json; do
  [ ! -e "$file" ] || echo "open: $file" >&2
done
