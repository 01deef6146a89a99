"""Runs the checks of the stop gate in their order."""

from .communicator_checker import CommunicatorChecker
from .system3_continuation_judge import check_ask_user_question_presented


def run(session_id, transcript):
    result = CommunicatorChecker(session_id).check()
    if not result.passed:
        return "block", result.message
    if not check_ask_user_question_presented(transcript):
        return "block", "Present options with AskUserQuestion first."
    return "continue", ""
