# A hook with nothing to do: it reads the event, looks for a question of the session, and finds none.
import json
import os
import sys

event = json.load(sys.stdin)
try:
    files = os.listdir(os.environ["CLAUDE_PROJECT_DIR"] + "/.claude/state/pending-questions")
except FileNotFoundError:
    files = []
for name in files:
    if name.startswith(event["session_id"]):
        print("open: " + name, file=sys.stderr)
