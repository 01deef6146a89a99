"""A poll script as harnesses have one, over the folder of argv[1]: it prints where it would look for replies. With argv[2] it
found that text in each of these threads."""
import json
import sys
from datetime import datetime, timezone
from pathlib import Path

looked = []
for path in sorted(Path(sys.argv[1], "gchat-forwarded-ask").glob("*.json")):
    marker = json.loads(path.read_text())
    thread, since = marker.get("thread_name", ""), marker.get("forwarded_at", "")
    if marker.get("status") != "pending" or not thread or not since:
        continue
    looked.append({"question_id": marker["question_id"], "thread_name": thread, "forwarded_at": since})
    if len(sys.argv) > 2:
        marker["status"] = "answered"
        marker["answer"] = sys.argv[2]
        marker["answered_at"] = datetime.now(timezone.utc).isoformat()
        marker["answered_by"] = "Ann"
        path.write_text(json.dumps(marker, indent=2))
print(json.dumps(looked))
