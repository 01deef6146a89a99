#!/usr/bin/env python3
"""The first design's PreToolUse hook, for comparison: it writes the question down, posts it, approves."""
import datetime
import json
import os
import subprocess
import sys
import urllib.request
import uuid


def tmux_session(session_id):
    if not os.environ.get("TMUX_PANE"):
        return session_id
    p = subprocess.run(["tmux", "display-message", "-p", "#{session_name}"], capture_output=True, text=True, timeout=1)
    return p.stdout.strip() if p.returncode == 0 else session_id


def main():
    event = json.load(sys.stdin)
    question_id = str(uuid.uuid4())
    thread_key = "ask-user-" + question_id[:8]
    now = datetime.datetime.now(datetime.timezone.utc)
    session = event["session_id"]
    lines = ["[AskUserQuestion] Session: " + session, ""]
    for q in event["tool_input"]["questions"]:
        lines += [q.get("header", ""), q["question"], "", "Options:"]
        lines += ["%d. %s — %s" % (i, o["label"], o.get("description", "")) for i, o in enumerate(q["options"], 1)]
        q["option_count"] = len(q["options"])
    lines += ["", 'Reply with the option number (e.g., "2") or type a custom response.', "Thread key: " + thread_key]
    folder = os.path.join(os.environ.get("CLAUDE_PROJECT_DIR", os.getcwd()), ".claude", "state", "pending-questions")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "%s-%d.json" % (session, now.timestamp()))
    with open(path + ".tmp", "w") as f:
        json.dump({
            "question_id": question_id, "session_id": session, "tmux_session": tmux_session(session), "asked_at": now.isoformat(),
            "gchat_thread_key": thread_key, "questions": event["tool_input"]["questions"], "status": "pending",
        }, f)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)
    body = json.dumps({"text": "\n".join(lines), "thread": {"threadKey": thread_key}}).encode()
    url = os.environ["GOOGLE_CHAT_WEBHOOK_URL"] + "&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
    out = {"decision": "approve"}
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json; charset=UTF-8"})
        urllib.request.urlopen(request, timeout=3).read()
    except OSError as e:
        out["systemMessage"] = "webhook POST failed: %s" % type(e).__name__
    print(json.dumps(out))


main()
