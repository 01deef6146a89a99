# A question recorded: it is on the disk before the hook ends, and a process that stays behind posts it.
# It does not try again, read a reply, or see that the question was answered.
import json
import os
import sys
import time

event = json.load(sys.stdin)
questions = event["tool_input"]["questions"]
question_id = os.urandom(16).hex()
thread_key = "ask-user-" + question_id[:8]
lines = ["[AskUserQuestion] " + event["session_id"]]
for q in questions:
    lines += ["", q["question"]]
    lines += ["%d. %s: %s" % (i, o["label"], o["description"]) for i, o in enumerate(q["options"], 1)]

folder = os.environ["CLAUDE_PROJECT_DIR"] + "/.claude/state/pending-questions"
os.makedirs(folder, exist_ok=True)
path = "%s/%s-%d.json" % (folder, event["session_id"], time.time())
with open(path + ".tmp", "w") as f:
    json.dump({
        "question_id": question_id, "session_id": event["session_id"], "asked_at": time.time(),
        "gchat_thread_key": thread_key, "questions": questions, "status": "pending",
    }, f)
    f.flush()
    os.fsync(f.fileno())
os.rename(path + ".tmp", path)

if os.fork() == 0:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in 0, 1, 2:
        os.dup2(null, descriptor)
    import urllib.request
    url = os.environ["GOOGLE_CHAT_WEBHOOK_URL"] + "&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
    body = json.dumps({"text": "\n".join(lines), "thread": {"threadKey": thread_key}}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json; charset=UTF-8"})
    urllib.request.urlopen(request, timeout=3).read()
