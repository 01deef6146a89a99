"""Judges whether a System 3 session may stop."""


def check_ask_user_question_presented(transcript):
    """Says whether the user was asked what comes next."""
    for entry in transcript:
        if entry.get("tool_name") == "AskUserQuestion" and not entry.get("denied"):
            return True
    return False
