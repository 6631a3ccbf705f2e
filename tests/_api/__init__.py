"""The published request schemas of the model APIs, as strict as the vendors are: what our providers send in
tests is held to them.
"""

from __future__ import annotations

from typing import Any

from _api.chat import check_chat
from _api.fields import mapping
from _api.messages import check_messages
from _api.responses import check_responses
from _loopback import Check
from _loopback.answers import Api


def strict(*extensions: str) -> Check:
    """A check for `LoopbackProvider` that refuses every field an API does not know. `extensions` are fields
    beyond Chat Completions that the server of a vendor knows (`chat_template_kwargs`, `thinking`).
    """

    def check(api: Api, body: Any) -> None:
        body = mapping(body, "body")
        if api == "chat":
            check_chat(body, extensions)
        elif api == "messages":
            check_messages(body)
        else:
            check_responses(body)

    return check
