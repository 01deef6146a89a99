"""Keeps a System 3 session alive while its s3-communicator is in the team."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

# Any of these keeps the session's team alive.
PERSISTENT_AGENTS = ("s3-heartbeat", "s3-validator", "s3-communicator")

COMMUNICATOR_NAME = "s3-communicator"


@dataclass
class CheckResult:
    passed: bool
    message: str


class CommunicatorChecker:
    """Looks into the team's config for the relay."""

    def __init__(self, session_id, home=None):
        self.session_id = session_id
        self.home = Path(home or os.path.expanduser("~"))

    def check(self):
        # s3-communicator has to be there
        for config in self.configs():
            members = config.get("members", [])
            names = [m.get("name") for m in members]
            if any(agent in names for agent in PERSISTENT_AGENTS):
                return CheckResult(True, "communicator present")
            for m in members:
                if m.get("agentName") in PERSISTENT_AGENTS:
                    return CheckResult(True, "communicator present")
        return CheckResult(False, "No s3-heartbeat in the team. Spawn s3-heartbeat before you stop.")

    def configs(self):
        for path in sorted(self.home.glob(".claude/teams/s3-live*/config.json")):
            try:
                yield json.loads(path.read_text())
            except ValueError:
                continue
