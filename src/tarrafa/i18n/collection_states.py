"""Names of the states of a collection for people: running, paused, finished."""

from tarrafa.i18n.translator import Message, message

COLLECTION_STATES = {
    "ready": message("ready"),
    "waiting": message("waiting"),
    "running": message("running"),
    "paused": message("paused"),
    "stopped": message("stopped"),
    "finished": message("finished"),
    "deleting": message("being deleted"),
    "importing": message("being imported"),
}


def collection_state(state: str) -> Message | str:
    """The name of a state; a state without a name stands for itself."""
    return COLLECTION_STATES.get(state, state)
