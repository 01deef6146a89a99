"""A stop gate as harnesses have one: what it makes of the markers of $CLAUDE_SESSION_ID in the folder of argv[1]."""
import json
import os
import re
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

# What datetime.fromisoformat of Python 3.9 takes; later ones take more.
PYTHON_3_9 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}(\d{3})?)?([+-]\d\d:\d\d)?")


def check_times(value, name=""):
    if isinstance(value, dict):
        for key, member in value.items():
            check_times(member, key)
    elif isinstance(value, list):
        for member in value:
            check_times(member, name)
    elif isinstance(value, str) and (name.endswith("_at") or name in ("at", "create_time")):
        if not PYTHON_3_9.fullmatch(value):
            sys.exit(f"{name} is {value}")
        age = datetime.now(timezone.utc) - datetime.fromisoformat(value)
        if abs(age) > timedelta(hours=1):
            sys.exit(f"{name} is {age} ago")


asked, waiting, answer = 0, 0, ""
for path in sorted(Path(sys.argv[1], "gchat-forwarded-ask").glob("*.json")):
    marker = json.loads(path.read_text())
    check_times(marker)
    if marker.get("session_id") != os.environ.get("CLAUDE_SESSION_ID", ""):
        continue
    asked += 1
    if marker.get("status") not in ("resolved", "timeout"):
        waiting += 1
    if marker.get("status") == "resolved":
        answer = marker.get("answer", marker.get("response", ""))
print(json.dumps({"asked": asked, "waiting": waiting, "answer": answer}))
