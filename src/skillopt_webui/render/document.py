"""The frame of an HTML document: style sheet and script are part of it, so that it asks for nothing."""

from __future__ import annotations

from importlib.resources import files

from skillopt_webui.render.markup import Markup, tag

_HERE = files("skillopt_webui.render")
STYLE = _HERE.joinpath("page.css").read_text(encoding="utf-8")
SCRIPT = _HERE.joinpath("page.js").read_text(encoding="utf-8")


def document(
    title: str,
    body: Markup,
    *,
    script: Markup,
    head: Markup | None = None,
    theme: str | None = None,
    play: float | None = None,
) -> str:
    """A whole HTML page. `script` is a script element; the caller sets the content security policy that
    allows it. With `play`, the scrubber moves by itself from the seed to the end in that many seconds.
    """
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        head or Markup(),
        tag("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    return (
        "<!DOCTYPE html>\n"
        + tag("html", top, tag("body", body, script), lang="en", data_theme=theme, data_play=play)
        + "\n"
    )
