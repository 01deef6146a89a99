"""Keeps a System 3 session alive while its s3-communicator is in the team."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

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
            if "s3-communicator" in names:
                return CheckResult(True, "communicator present")
            for m in members:
                if m.get("agentName") == COMMUNICATOR_NAME:
                    return CheckResult(True, "communicator present")
        return CheckResult(False, "No s3-communicator in the team. Spawn s3-communicator before you stop.")

    def configs(self):
        for path in sorted(self.home.glob(".claude/teams/s3-live*/config.json")):
            try:
                yield json.loads(path.read_text())
            except ValueError:
                continue
