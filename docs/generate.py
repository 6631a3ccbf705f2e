"""Writes `configuration.md`, `python.md` and the tables of `agents.md` and `plugins.md` from the code, so that none can lag:
`python docs/generate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from _public_defaults import PUBLIC, WHY, differs, public_default
from _reference import reference
from _tables import with_tables

from skillopt.benchmarks import benchmarks
from skillopt.config.fields import Leaf
from skillopt.config.keys import (
    ALIASES,
    FLAT_NAMES,
    IGNORED_KEYS,
    IGNORED_VARIABLES,
    REFUSED_KEYS,
    ROLE_VARIABLES,
    SHORT_NAMES,
    VALUE_ALIASES,
    declared,
    describe,
)
from skillopt.mcp import TOOLS

HEAD = """# Configuration

Made by `docs/generate.py`; `make docs` writes it anew and a test holds it.

Settings come from flags, `-o key=value` (`--cfg-options`), a YAML file (`--config`, with `_base_`), the environment and `.env`, in that order;
`skillopt config show` prints every value with its origin. An unknown key is an error that names the near miss. A knob left unset sends
nothing; the output cap is the one knob with a default. `flag` is the public name of the same setting on the command line; `--help-all`
lists the usual ones, and every key is taken there, by this name or as `--key value`.

`public default` is what the public SkillOpt ships; an empty cell is unset, *ours* is a key that only exists here. Where our default is
another one, the next column says why.

A file may be structured (sections, as below) or flat (`batch_size: 40`, the names of the flags); within a file the structured form wins,
and a file beats its `_base_` whatever its form. `python -m skillopt.run --config FILE` takes the short flat form, with these further names:
"""
PROVIDERS = """## Settings of a provider or an agent program

What is set for a provider reaches every role that is on it, and no other. Keys of a provider also exist for one role
(`model.optimizer_azure_openai_endpoint`, `model.target_qwen_chat_base_url`): such a key beats the common one, unless the common one stands
in this run's own settings and the role's only in the environment. All of them fill the role's own settings (`model.<role>.base_url`,
`.options`, `.agent`), which can be written directly as well, and then win.
"""
VARIABLES_TEXT = """## Environment variables

Every key of the table above is also a variable: its last part in capitals (`AZURE_OPENAI_ENDPOINT`, `QWEN_CHAT_TEMPERATURE`,
`CLAUDE_CODE_EXEC_PATH`), for one role with `OPTIMIZER_` or `TARGET_` in front (`TARGET_AZURE_OPENAI_API_KEY`) or after the provider's name
(`AZURE_OPENAI_TARGET_API_KEY`). `1` and `0` are true and false. Variables are read and never written.

A `.env` in the working directory is read the same way, weakest of all, with two limits because it may be somebody else's: an endpoint in it
is used only with a key from the same file, and an agent of your own, a model file and settings of a program that starts on this machine are not read from it.

Further names:
"""
BACKENDS = """## Backends

A bare model name (`gpt-5.5`, without `provider:`) goes to its role's backend. `model.backend` fills the roles whose own backend is unset or
`openai_chat`. Two names mean something else than in the public system: `openai` and `anthropic` are those APIs, not agent programs.
The names `gpt-5.4` and `gpt-5.5`, left at their default or standing in a file, give way to a backend's own default model; to insist, name
them on the command line or write `provider:gpt-5.5`.
"""
SECOND_TEXT = """## Second names

One name of a key or value is used throughout; these are read as well.
"""
WITHOUT = """## Public keys and variables that do nothing here

They load; with any other value than those, a dead key gives one warning and a refused one is an error.
"""


def page() -> str:
    """The whole page."""
    common = describe()
    parts = [HEAD, lines(("name", "key"), ((f"`{name}`", f"`{key}`") for name, key in SHORT_NAMES.items()))]
    parts += ["## Settings of every run\n", table(common)]
    shared = [
        row
        for row in (each.leaf for each in declared().keys.values())
        if declared().keys[row.key].role is None or row.key.startswith("model.copilot_chat")
    ]
    parts += [
        PROVIDERS,
        table(shared),
        VARIABLES_TEXT,
        further_variables(),
        BACKENDS,
        backends(),
        SECOND_TEXT,
        second_names(),
    ]
    for name in benchmarks.names():
        own = [row for row in describe(name) if row.key not in {shared.key for shared in common}]
        parts += [f"## Settings of `{name}`\n", table(own, name)]
    parts += [WITHOUT, without()]
    return "\n".join(parts)


def table(rows: Sequence[Leaf], benchmark: str | None = None) -> str:
    """One line a key."""
    cells = []
    for row in rows:
        name = flat_name(row.key) or (row.key.removeprefix("env.") if benchmark is not None else None)
        public = plain(public_default(row.key)) if row.key in PUBLIC else "*ours*"
        why = WHY[row.key] if differs(row.key, row.default) else ""
        cells.append(
            (
                f"`{row.key}`",
                f"`--{name}`" if name else "",
                row.type,
                plain(row.default),
                public,
                why,
                row.description,
            )
        )
    return lines(("key", "flag", "type", "default", "public default", "why ours differs", "meaning"), cells)


def flat_name(key: str) -> str | None:
    """The name of a key's flag, where it has one of its own."""
    if key in declared().keys:
        return key.removeprefix("model.")
    role = key.removesuffix(".name")
    return next((name for name, each in FLAT_NAMES.items() if each in (key, role)), None)


def further_variables() -> str:
    """Variables whose name does not follow from their key."""
    return lines(
        ("variable", "key"),
        (
            (f"`{name}`", f"`{key}`")
            for name, key in {**ROLE_VARIABLES, **declared().variables}.items()
            if name in ROLE_VARIABLES or not follows(name, key)
        ),
    )


def follows(variable: str, key: str) -> bool:
    """True where the name of a variable is that of its key, for one role in either order of the words."""
    return sorted(variable.lower().split("_")) == sorted(key.removeprefix("model.").split("_"))


def second_names() -> str:
    """Keys and values that have more than one public name."""
    keys = [(f"`{name}`", f"`{key}`") for name, key in ALIASES.items()]
    values = [
        (f"`{last}: {word}`", f"`{last}: {name}`")
        for key, names in VALUE_ALIASES.items()
        for last in [key.removeprefix("options.")]
        for name, words in names.items()
        for word in words
    ]
    return lines(
        ("written", "means"),
        [*keys, ("`lr_scheduler: autonomous`", "`optimizer.lr_control_mode: autonomous`"), *values],
    )


def backends() -> str:
    """What each public backend name means."""
    cells = []
    for name, found in sorted(declared().backends.items()):
        service = declared().service(found.provider)
        other = declared().stand_in(found.provider) if found.open else None
        provider = f"{found.provider} or {other}" if other else found.provider
        target = provider if found.harness == "chat" else f"{found.harness}/{provider}"
        optimizer = "" if not found.optimizer else provider
        default = service.default_model or ("" if service.default_model == "" else found.provider)
        model = f"`{default}`" if default else "the program's own"
        model = "none: name one" if service.default_model is None and service.needs_name else model
        cells.append((f"`{name}`", target, optimizer, "yes" if found.fills_optimizer else "", model))
    return lines(
        (
            "backend",
            "as target",
            "as optimizer",
            "as `model.backend` also fills the optimizer",
            "default model",
        ),
        cells,
    )


def without() -> str:
    """Dead and refused keys."""
    cells = [
        (f"`{key}`", "any value" if values is None else ", ".join(map(plain, values)), f"dead: {why}")
        for key, (why, values) in IGNORED_KEYS.items()
    ]
    cells += [
        (f"`{key}`", ", ".join(map(plain, values)), f"refused: {why}")
        for key, (why, values) in REFUSED_KEYS.items()
    ]
    cells += [
        (f"variable `{name}`", ", ".join(f"`{value}`" for value in values), f"dead: {why}")
        for name, (why, values) in IGNORED_VARIABLES.items()
    ]
    return lines(("key", "loads silently with", "why"), cells)


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    made = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    made += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(made) + "\n"


def plain(value: Any) -> str:
    """A value as it would be written in a file; unset is an empty cell."""
    if value is None or value == "":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def agents(text: str) -> str:
    """The page on agents with its tables as the code has them."""
    return with_tables(text, {name: benchmarks.get(name) for name in benchmarks.names()})


def mcp(text: str) -> str:
    """The page on the MCP server with its table of tools as the code has them."""
    cells = []
    for tool in TOOLS:
        required = tool.schema.get("required", ())
        names = [name for name in tool.schema["properties"] if name != "project"]
        shown = ", ".join(f"**`{name}`**" if name in required else f"`{name}`" for name in names)
        switch = f"`--allow {tool.switch}`" if tool.switch else ""
        cells.append((f"`{tool.name}`", switch, tool.says, shown))
    before, mark, rest = text.partition("<!-- table: tools -->\n")
    made = lines(("tool", "switched on by", "what it does", "arguments (**required**)"), cells)
    return f"{before}{mark}{made}{rest[rest.index('<!-- end -->') :]}"


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "configuration.md").write_text(page(), encoding="utf-8")
    (here / "python.md").write_text(reference(), encoding="utf-8")
    (here / "agents.md").write_text(
        agents((here / "agents.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    (here / "plugins.md").write_text(mcp((here / "plugins.md").read_text(encoding="utf-8")), encoding="utf-8")
