& "$PSScriptRoot/../install.ps1" codex @args
exit $LASTEXITCODE
