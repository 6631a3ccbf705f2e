# Installs SkillOpt into the agent that is named. Makes sure that SkillOpt itself is there, and lets it do the rest.
# To take it back: skillopt plugin uninstall AGENT
$ErrorActionPreference = 'Stop'

if (-not (Get-Command skillopt -ErrorAction SilentlyContinue)) {
    # From the checkout this script lies in, never by name: a package index has another program under that name.
    $checkout = [IO.Path]::GetFullPath("$PSScriptRoot/..")
    if (-not (Test-Path "$checkout/pyproject.toml")) {
        Write-Error "There is no program skillopt on the PATH, and this script lies in no checkout to install it from. Put the program on the PATH, or run the script of a checkout of SkillOpt."
        exit 1
    } elseif (Get-Command uv -ErrorAction SilentlyContinue) {
        uv tool install "${checkout}[mcp]"
        $env:PATH = "$(uv tool dir --bin);$env:PATH"
    } elseif (Get-Command pipx -ErrorAction SilentlyContinue) {
        pipx install "${checkout}[mcp]"
        $folder = if ($env:PIPX_BIN_DIR) { $env:PIPX_BIN_DIR } else { Join-Path $HOME '.local\bin' }
        $env:PATH = "$folder;$env:PATH"
    } else {
        Write-Error "SkillOpt is not installed, and neither uv nor pipx is here to install it. Install it (for example: py -m pip install '${checkout}[mcp]'), then run this again."
        exit 1
    }
}

skillopt plugin install @args
exit $LASTEXITCODE
