#!/bin/sh
# Installs SkillOpt's skill and MCP server for Codex. Makes sure that SkillOpt itself is there, and lets it do the rest.
# To take it back: skillopt plugin uninstall codex
set -eu

if ! command -v skillopt >/dev/null 2>&1; then
    if command -v uv >/dev/null 2>&1; then
        uv tool install 'skillopt[mcp]'
        PATH="$(uv tool dir --bin):$PATH"
    elif command -v pipx >/dev/null 2>&1; then
        pipx install 'skillopt[mcp]'
        PATH="${PIPX_BIN_DIR:-$HOME/.local/bin}:$PATH"
    else
        echo "SkillOpt is not installed, and neither uv nor pipx is here to install it." >&2
        echo "Install it (for example: python3 -m pip install 'skillopt[mcp]'), then run this again." >&2
        exit 1
    fi
    export PATH
fi

exec skillopt plugin install codex "$@"
