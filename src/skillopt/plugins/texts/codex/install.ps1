# Installs SkillOpt's skill and MCP server for Codex. Makes sure that SkillOpt itself is there, and lets it do the rest.
# To take it back: skillopt plugin uninstall codex
$ErrorActionPreference = 'Stop'

if (-not (Get-Command skillopt -ErrorAction SilentlyContinue)) {
    if (Get-Command uv -ErrorAction SilentlyContinue) {
        uv tool install 'skillopt[mcp]'
        $env:PATH = "$(uv tool dir --bin);$env:PATH"
    } elseif (Get-Command pipx -ErrorAction SilentlyContinue) {
        pipx install 'skillopt[mcp]'
        $folder = if ($env:PIPX_BIN_DIR) { $env:PIPX_BIN_DIR } else { Join-Path $HOME '.local\bin' }
        $env:PATH = "$folder;$env:PATH"
    } else {
        Write-Error "SkillOpt is not installed, and neither uv nor pipx is here to install it. Install it (for example: py -m pip install 'skillopt[mcp]'), then run this again."
        exit 1
    }
}

skillopt plugin install codex @args
exit $LASTEXITCODE
