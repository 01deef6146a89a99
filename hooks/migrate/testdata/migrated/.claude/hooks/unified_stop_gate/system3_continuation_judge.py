"""Judges whether a System 3 session may stop."""


def gchat_question_was_asked(max_age_minutes=30):
    """Says whether gchat-hooks put a question into Google Chat lately: then it has left, or touched, a marker."""
    import os
    import time

    state = os.environ.get("GCHAT_STATE_DIR") or os.path.join(
        os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd(), ".claude", "state"
    )
    try:
        with os.scandir(os.path.join(state, "gchat-forwarded-ask")) as markers:
            return any(
                m.name.endswith(".json") and time.time() - m.stat().st_mtime < max_age_minutes * 60 for m in markers
            )
    except OSError:
        return False


def check_ask_user_question_presented(transcript):
    """Says whether the user was asked what comes next."""
    if gchat_question_was_asked():
        return True
    for entry in transcript:
        if entry.get("tool_name") == "AskUserQuestion" and not entry.get("denied"):
            return True
    return False
