"""Claude Code: a plugin in its folder of skills, which it loads at its next start, and three commands.

The same folder is a marketplace, so that a team can hand it on. Plugins' commands have the plugin's name
before theirs; ours are also the user's own commands, so that `/skillopt-sleep` is what it is called. Only a
person can call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skillopt.changes.actions import OwnFile
from skillopt.plugins.kit import SKILL, Kit
from skillopt.plugins.port import AgentPlugin, InstallPlace

COMMANDS = ("skillopt-sleep", "skillopt-sleep-handoff", "skillopt-train")

_TEXTS = Path(__file__).parent / "texts"


def _actions(place: InstallPlace, kit: Kit) -> Sequence[OwnFile]:
    home, project = place.folder("CLAUDE_CONFIG_DIR", ".claude"), place.project
    claude = home if project is None else project / ".claude"
    plugin = claude / "skills" / SKILL
    words = ("plugin", "session-start")
    hook = kit.program.powershell(*words) if place.windows else kit.program.line(*words)
    own = {
        "arguments": "$ARGUMENTS",
        "session_start": hook,
        "shell": "powershell" if place.windows else "bash",
    }
    kit = replace(kit, own=own)
    return [
        *(
            kit.file(plugin / name, _TEXTS / name)
            for name in (".mcp.json", "hooks/hooks.json", ".claude-plugin/marketplace.json")
        ),
        *kit.command_files(plugin / "marketplace-commands", COMMANDS),
        *kit.command_files(claude / "commands", COMMANDS),
        *kit.skill(plugin / "skills"),
        # Last: without it the folder is no plugin.
        kit.file(plugin / ".claude-plugin" / "plugin.json", _TEXTS / ".claude-plugin" / "plugin.json"),
    ]


PLUGIN = AgentPlugin(
    gets=(
        "a plugin (skill, MCP server, SessionStart hook) that is also a marketplace; commands"
        " /skillopt-sleep, -handoff, /skillopt-train"
    ),
    scopes=("user", "project"),
    actions=_actions,
    seen="Claude Code 2.1.197",
    then="Start Claude Code anew; `claude plugin list` shows skillopt@skills-dir.",
)
