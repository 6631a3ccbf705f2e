#!/bin/sh
# Installs SkillOpt into the agent that is named. Makes sure that SkillOpt itself is there, and lets it do the rest.
# To take it back: skillopt plugin uninstall AGENT
set -eu

if ! command -v skillopt >/dev/null 2>&1; then
    # From the checkout this script lies in, never by name: a package index has another program under that name.
    checkout="$(cd "${0%/*}/.." && pwd)"
    if [ ! -f "$checkout/pyproject.toml" ]; then
        echo "There is no program skillopt on the PATH, and this script lies in no checkout to install it from." >&2
        echo "Put the program on the PATH, or run the script of a checkout of SkillOpt." >&2
        exit 1
    elif command -v uv >/dev/null 2>&1; then
        uv tool install "${checkout}[mcp]"
        PATH="$(uv tool dir --bin):$PATH"
    elif command -v pipx >/dev/null 2>&1; then
        pipx install "${checkout}[mcp]"
        PATH="${PIPX_BIN_DIR:-$HOME/.local/bin}:$PATH"
    else
        echo "SkillOpt is not installed, and neither uv nor pipx is here to install it." >&2
        echo "Install it (for example: python3 -m pip install '${checkout}[mcp]'), then run this again." >&2
        exit 1
    fi
    export PATH
fi

exec skillopt plugin install "$@"
