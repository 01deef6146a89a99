"""What a stop gate asks once gchat-hooks reaches Google Chat, in place of: is s3-communicator there?"""

import glob
import os
import time

PERSISTENT_AGENTS = ("s3-heartbeat", "s3-validator", "s3-communicator")


def any_persistent_agent(names):
    """Any of them keeps the session's team alive. names are those of the team's members."""
    return any(agent in names for agent in PERSISTENT_AGENTS)


def asked_in_google_chat(max_age_minutes=30):
    """A denied question counts as presented to the user: gchat-hooks has left, or touched, its marker lately."""
    project = os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    state = os.environ.get("GCHAT_STATE_DIR") or os.path.join(project, ".claude", "state")
    markers = glob.glob(os.path.join(glob.escape(state), "gchat-forwarded-ask", "*.json"))
    return any(time.time() - os.path.getmtime(m) < max_age_minutes * 60 for m in markers)
