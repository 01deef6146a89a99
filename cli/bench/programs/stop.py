# Stop, with an agent that supervises the session: it asks tmux for the session's name and screen, finds the
# agent in the registry, and reports Claude's last words, if they are new. The report and the words are on
# the disk before the hook ends, and a process that stays behind posts the report.
# It does not try again, and it takes any "error" on the screen for one.
import json
import os
import re
import subprocess
import sys


def write(path, text):
    with open(path + ".tmp", "w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.rename(path + ".tmp", path)


event = json.load(sys.stdin)
pane = os.environ["TMUX_PANE"]
command = ["tmux", "display-message", "-p", "-t", pane, "#S", ";", "capture-pane", "-p", "-t", pane, "-S", "-100"]
session, screen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n", 1)
with open(os.environ["GCHAT_WAKE_REGISTRY"]) as f:
    agents = [a for a in json.load(f)["agents"] if a["tmux_session_name"] == session and a.get("enabled", True)]
if event.get("stop_hook_active") or not agents:
    sys.exit()

words = event["last_assistant_message"]
known = "%s/%s.txt" % (os.environ["HOME"], event["session_id"])
if os.path.exists(known) and open(known).read() == words:
    sys.exit()
state = "idle"
for name, pattern in ("menu", "enter to select|to navigate"), ("permission", "do you want to"), ("error", "error|failed"):
    if re.search(pattern, screen, re.IGNORECASE):
        state = name
        break
body = json.dumps({"text": "[Wake] %s\nresponse_complete, %s\n\n%s" % (session, state, words)})
message = "%s/message-%d.json" % (os.environ["HOME"], os.getpid())
write(message, body)
write(known, words)

if os.fork() == 0:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in 0, 1, 2:
        os.dup2(null, descriptor)
    import urllib.request
    url = os.environ["GOOGLE_CHAT_WEBHOOK_URL"]
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json; charset=UTF-8"})
    urllib.request.urlopen(request, timeout=3).read()
    os.remove(message)
