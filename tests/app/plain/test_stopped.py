"""Ctrl+Z at the prompt gives the terminal back to the shell, and is no letter of the message."""

import json
import sys

from tests.app.conftest import ROOT
from tests.app.terminal import Terminal

SHELL = 'set -m; "$@"; echo "stopped with $?"; fg'
"""A shell that controls jobs and has a job go on once it is stopped."""


def test_ctrl_z_stops_the_chat_and_the_draft_goes_on_with_it(environment, store):
    environment["QWEN38_PATHS_DATA"] = str(store.folder.parent)
    chat = [sys.executable, "-m", "tests.app.driver", json.dumps([{}]), "chat", "--plain"]
    with Terminal(["bash", "-c", SHELL, "bash", *chat], environment, ROOT) as terminal:
        terminal.wait_for("you>")
        terminal.type("half")
        terminal.wait_for("half")
        terminal.type("\x1a")
        terminal.wait_for("stopped with 14[78].*you> half")
        terminal.type(" more\r")
        terminal.wait_for("tok/s.*you>")
        terminal.type("/quit\r")
        assert terminal.exit_code()[1] == 0
    (kept,) = store.list()
    assert next(one.content for one in store.open(kept.id).path_messages()) == "half more"
