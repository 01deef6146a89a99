#!/usr/bin/env python3
"""What gchat-notification-dispatch does, as the first design has it: route, and post what is not suppressed. It keeps
nothing and retries nothing. Here to be compared with; nobody should use it."""
import json
import os
import sys
import urllib.request

ROUTES = {
    "subagent_complete": "[Subagent Done]",
    "background_task_complete": "[Task Done]",
    "error": "[Error]",
}


def main() -> None:
    event = json.load(sys.stdin)
    notification = event.get("notification", {})
    prefix = ROUTES.get(notification.get("type", event.get("notification_type", "")))
    if prefix is None:
        return
    text = "\n".join([
        f"{prefix} {event.get('session_id', '')}",
        f"{notification.get('agent_name', '')} completed task",
        notification.get("body", ""),
    ])
    request = urllib.request.Request(
        os.environ["GOOGLE_CHAT_WEBHOOK_URL"], json.dumps({"text": text}).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=5).read()


main()
