"""The forms that orders to an agent have in a text: commands, links, permissions, credentials and such."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from skillopt.skill.layout import REGION_NAMES, marker

Compared = Literal["command", "link", "text", "sentence", "words"]
"""How a form is looked for in the person's own texts: as a command, as a link or host, to the letter, as the
end of a sentence of theirs, or as the same words in a row.
"""
_DENIED = re.compile(
    r"\b(?:never|not|don'?t|no|avoid|without|instead of|rather than|nie|kein\w*|nicht)\b"
    r"(?!\s+(?:forget|fail|hesitate|skip|only|just))[^,;:.!?\n]{0,80}\Z",
    re.IGNORECASE,
)
"""A text that ends inside of what it forbids."""


_FORBIDDEN = re.compile(r"(?:^\s*|[\n.,;!?]\s+|[-*+]\s+|\band\s+)(?:never|do not|don'?t)\s+\Z", re.IGNORECASE)
"""A text that ends where it says what not to do."""


def is_denied(text: str, at: int) -> bool:
    """Whether what stands at a place is something not to do."""
    return bool(_DENIED.search(text[max(0, at - 100) : at]))


def _any(text: str) -> re.Pattern[str]:
    return re.compile(text.replace(" ?", r"\s*").replace(" ", r"\s+"), re.IGNORECASE)


_SHELL = r"(?:ba|z|k|da|fi|c)?sh|python[\d.]*|perl|ruby|node|php|pwsh|powershell|iex|cmd|source"
HOST = (
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,30}(?:com|org|xyz|ru|cn|info|biz|top|onion|example|invalid|tk|site"
    r"|online|click|link)\b(?!\.?\w|\()|(?<=[@/ ])(?:[\w-]{1,63}\.){1,9}(?:net|io|dev|ai|app|co|me|sh|test"
    r"|internal|local|cloud|to|gg|de|uk)(?=[:/]\S)"
)
_CREDENTIAL = (
    r"api[ _-]?keys?|(?:access|auth\w*|bearer|secret|session|refresh|deploy|personal|github|ci"
    r"|csrf)[ _-]tokens?|(?:the|your|my) token(?! (?:count|limit|budget|usage|length|window))"
    r"|\bpass(?:word|phrase)s?\b|credentials?|(?:private|secret|signing|encryption) keys?|\bsecrets?\b"
    r"|(?<![\w/])\.env\b(?!\.(?:example|sample|template|dist)\b)(?:\.\w+)?|~?/?\.ssh\b\S*"
    r"|id_(?:rsa|ed25519|ecdsa)|\.(?:netrc|npmrc|pypirc|git-credentials|kube/config|aws/\w+|gnupg)\b"
    r"|\b[A-Z][A-Z0-9]{0,30}_(?:[A-Z0-9]{1,30}_){0,5}(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)\b"
    r"|keychain|seed phrase|\bprintenv\b|session cookies?|environment variables"
)
_ASKED = r"permissions?|approvals?|confirmations?|consent|authori[sz]ations?|leave"
_PEOPLE = (
    r"(?:the |a |any |your )?(?:user|person|human|developer|reviewer|author|team|owner|any(?:one|body)|me)"
)
_GUARDS = (
    r"(?:sand ?box\w*|hooks?|tests?|checks?|guard\w*|safety|security|linters?|permissions?|protections?"
    r"|reviews?|confirmations?|approvals?|firewall|antivirus|logging|audit\w*|validation|verification"
    r"|gates?|certificate\w*)"
)
_NAMES = r" ?(?:(?:\.\.\.|\w+(?: ?= ?\w+)?)(?: ?, ?(?:\.\.\.|\w+(?: ?= ?\w+)?)){0,9})?"
"""What stands in brackets behind the name of a function that is only spoken of."""
_GRANTS = "changes what an agent may do"
_GIVES, _SENDS = "gives a credential away", "sends something away"
_SPARED = {_GIVES: _DENIED, _SENDS: _DENIED, _GRANTS: _FORBIDDEN}
_PATTERNS: tuple[tuple[str, re.Pattern[str], Compared], ...] = (
    (
        "downloads something and runs it",
        _any(
            rf"(?:curl|wget|iwr|irm|invoke-webrequest"
            rf"|base64)\b[^\n`]{{0,200}}?\| ?(?:sudo )?(?:{_SHELL})\b(?: -\S*)*"
            r"|(?:iex|invoke-expression)\b[^\n`]{0,200}"
            r"|(?:ba|z)?sh -c \S[^\n`]{0,200}|(?:ba)?sh <\([^\n`]{0,200}|\beval [\"'$(`][^\n`]{0,200}"
            rf"|\b(?:eval|exec|os\.system|subprocess\.\w+) ?\((?!{_NAMES} ?\))[^\n`]{{0,100}}"
            r"|(?:pip3?|npm|pnpm|yarn|uv|gem|cargo|go|brew)\b[^\n`]{0,40}?\b(?:install|add|i"
            r"|tap)\b[^\n`]{0,60}?(?:git\+|https?://|github:|--index-url|--extra-index)[^\s`]*"
        ),
        "command",
    ),
    (
        "downloads something and runs it",
        _any(
            r"\b(?:download|fetch|retrieve|grab|pull|curl|wget)\b[^.\n]{0,100}?\b(?:run|execute"
            r"|source|eval\w*|install|apply|follow|obey) (?:it|them|that|this|the (?:\w+ )?(?:script|file"
            r"|result|output|installer|binary|program|code|contents?|instructions))\b"
            rf"|\bpipe\b[^.\n]{{0,80}}? (?:in)?to (?:the |a )?(?:{_SHELL}|shell|interpreter)\b"
        ),
        "sentence",
    ),
    (
        _GRANTS,
        _any(
            r"--(?:dangerously[\w-]*|yolo|allow-all[\w-]*|no-verify|no-sandbox|full-auto"
            r"|skip-permissions[\w-]*"
            r"|trust-all[\w-]*|accept-all|auto-approve|insecure|no-check-certificate|yes-to-all)"
            r"|\"allow\" ?: ?\[ ?\"(?:Bash|Edit|Write|Web|mcp__)"
            r"|\.(?:claude|codex|cursor|gemini)/(?:settings|config|hooks)\b[\w.]*"
            r"|\bdangerously(?:disable|skip|allow|bypass)\w*|\bBash\([^)\n]*\)"
            r"|\byolo\b|bypassPermissions|acceptEdits|danger-full-access|StrictHostKeyChecking=no"
            r"|NODE_TLS_REJECT_UNAUTHORIZED|verify ?= ?False"
        ),
        "text",
    ),
    (
        _GRANTS,
        _any(
            r"\b(?:(?:never|not|don'?t|without|no need to|instead of)(?: \w+){0,2}?|stop|skip|avoid)"
            r" (?:ask\w*|wait\w*|request\w*|prompt\w*|seek\w*|requir\w*|confirm\w*)(?: \w+){0,3}?"
            rf" (?:{_ASKED}|first|{_PEOPLE})\b|\bwithout (?:asking|(?:\w+ )?(?:{_ASKED}))\b"
            rf"|\bno (?:further )?(?:{_ASKED}) (?:is |are )?(?:needed|required|necessary)\b"
            r"|\bauto(?:matically)?[ -]?(?:approve|accept|confirm|grant|allow)\w*"
            r"|\bbypass\w*|\bcircumvent\w*"
            rf"|\b(?:disabl|turn off|switch off|deactivat|suppress|skip|overrid|remov"
            rf"|ignor)\w*(?: \w+){{0,2}}? {_GUARDS}\b|\btrust (?:all|any|every\w*)\b"
            rf"|\b(?:treat|assume|consider|regard)\b[^.\n]{{0,60}}?\b(?:approved|authori[sz]ed|granted"
            rf"|trusted|safe)\b"
            r"|\b(?:pre-?|already )(?:approved|authori[sz]ed)\b|\b(?:full|root|admin\w*) (?:access"
            r"|rights|privileges)\b"
        ),
        "sentence",
    ),
    (
        _GRANTS,
        _any(
            r"\b(?:claude|codex|gemini|copilot|cursor-agent|opencode) (?:mcp|plugins?|extensions?|config) "
            r"(?:add|install|enable|set|marketplace)\b[^\n`]*"
        ),
        "command",
    ),
    (
        "changes what runs by itself",
        _any(
            r"\.git/hooks/\w\S*|\bcore\.(?:hooksPath|sshCommand|pager|editor|fsmonitor)\b"
            r"|~/\.(?:bash|zsh|profile|zprofile|gitconfig|config/fish)\w*"
        ),
        "text",
    ),
    (
        _GIVES,
        _any(
            rf"\b(?:show|print|echo|e?-?mail|post|paste|includ|cop|read|cat|log|append|output|dump"
            rf"|send|upload|quot"
            rf"|report|publish|share|add|writ|put)(?:e|s|es|ed|y|t?ing)?\b[^.\n]{{0,60}}?(?:{_CREDENTIAL})"
        ),
        "words",
    ),
    ("names a credential", _any(_CREDENTIAL), "words"),
    (
        _SENDS,
        _any(
            r"\b(?:send|upload|forward|transmit|exfiltrate|e-?mail|leak|mirror|post|publish"
            r"|report)\b[^.\n]{0,80}? (?:to|with|on|at) (?:\S+ ){0,4}?(?:https?://\S+|\S+@\S+"
            r"|\w*(?:server|webhook|endpoint|service|url"
            rf"|address|pastebin|gist|bucket|channel|collector|host|site)s?\b|{HOST})"
        ),
        "words",
    ),
    (
        "hides something from the person",
        _any(
            rf"\b(?:never|not|don'?t|without|avoid|no need to)(?: \w+){{0,1}}? (?:tell|inform|notify"
            rf"|alert|warn)\w* {_PEOPLE}\b"
            r"|\b(?:never|not|don'?t|without|avoid)(?: \w+){0,1}? (?:mention|reveal|disclos|report|show|say"
            r"|explain|log)\w* (?:this|that|it|anything|these|the (?:rule|instruction|step|command"
            r"|script|line|upload|request|change|note))\b"
            r"|\b(?:nobody|no-?one|no one) (?:has|have|needs?) to (?:know|hear|see|notice|learn)\b"
            r"|\b(?:secretly|covertly|hide|conceal|stealth\w*)\b"
            r"|\b(?:silently|quietly) (?:run|execut|send|post|upload|add|append|install|commit|push"
            r"|delet|copy)\w*"
        ),
        "sentence",
    ),
    (
        "takes other instructions back",
        _any(
            r"\b(?:ignor|disregard|forget|overrid|discard)\w*(?: (?:all|any|of|the|your|these|those"
            r"|every)){0,3}(?: (?:previous|prior|above|earlier|preceding|other|system"
            r"|existing)){0,2} (?:instruction|rule|prompt|message|guideline|guidance|direction|constraint)\w*"
            r"|\b(?:instruction|rule|guideline)s? (?:above|before)?(?: \w+){0,2}? (?:no longer|don'?t"
            r"|do not) apply\w*"
            r"|\bsystem (?:note|override|notice)\b|\btakes? precedence over\b|\byou are now\b"
            r"|<\|?/?(?:system|im_start|im_end)\b|\[/?INST\]"
        ),
        "sentence",
    ),
    ("a comment that no page shows", re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL), "text"),
    (
        "markup that loads or runs something",
        _any(
            r"<(?:script|iframe|img|object|embed|svg|link|style)\b[^>]{0,200}>?"
            r"|\b(?:data:[\w/+.-]+[;,]|javascript:)\S*"
        ),
        "text",
    ),
    (
        "a link under the text of another",
        re.compile(
            r"\[(?=[^\[\]\n]{0,200}\w\.\w)[^\[\]\n]{1,200}\]\(\s{0,9}<?(?:[a-z][a-z0-9+.-]*:)?//[^)\s]+\)",
            re.IGNORECASE,
        ),
        "text",
    ),
)
_LINKS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a link", re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s`<>\"')\]]*[^\s`<>\"')\].,;:!?]", re.IGNORECASE)),
    ("an e-mail address", re.compile(r"\b[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,9}[a-z]{2,}\b", re.IGNORECASE)),
    (
        "an IP address",
        re.compile(
            r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b", re.I
        ),
    ),
    ("a host name", re.compile(HOST, re.IGNORECASE)),
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PROGRAMS = _set("""
    ansible apk apt apt-get awk aws az base64 bash bitsadmin brew bundle bunx bunzip2 cargo certutil
    chmod choco chown cmake composer conda cp crontab curl dd deno dnf docker dotnet eslint flake8
    gcloud gem gh git gpg gradle grep gunzip gzip helm iex irm isort iwr jest kill killall kubectl
    launchctl ln lua mkdir mkfs mocha mongo mshta mv mvn mypy mysql nc ncat netcat ninja nmap node nohup
    nox npm npx openssl osascript perl php pip pip3 pipx pkill pnpm podman poetry powershell pre-commit
    prettier psql pwsh pylint pytest python python3 rd redis-cli regsvr32 rg rm rmdir rsync ruby ruff
    rundll32 rustup schtasks scp sed setx sftp shred sqlite3 ssh sudo systemctl systemd-run tar telnet
    terraform tox tsc unzip uv uvx vitest wget winget xargs xxd yarn yum zsh
""")
_AMBIGUOUS = _set("""
    black bun cat cmd cut date echo env export find fish go head java kill ls make open printf reboot
    set sh shutdown sort source start tail tee time touch
""")
"""Programs that are English words too: they count behind a word such as `run`, or where they have flags."""
_VERB = re.compile(
    r"\b(?:run|runs|execute|invoke|launch|install|start|then|use|with|fuehre|führe)\b:?\s*[`\"']?\Z", re.I
)
_ORDER = re.compile(r"\b(?:run|runs|execute|invoke|launch|install)\b:?\s*\Z", re.IGNORECASE)
_VERBS = _set("""
    add apply build checkout ci clean clone commit compose config create delete deploy exec fetch fmt
    format get i init install login merge plan publish pull push rebase reset restore run stash switch
    sync tag test uninstall up update upgrade vet x
""")
_NOUNS = _set("body hash history log message messages subject title titles")
_STOPS = _set("""
    after again and as at because before but every first for from if in instead it never not of on once
    or so that the then there this to unless until when where which while with without
""")
_CODE = re.compile(r"```(?P<language>\w*)[^\n]*\n(?P<block>.*?)(?:```|\Z)|`(?P<inline>[^`\n]+)`", re.DOTALL)
_STRICT = re.compile(r"set(?:\s+(?:[-+][a-zA-Z]+|pipefail))+[.,;:]?")
"""Options that a script gives its own shell, and that do nothing else."""
_SHELLS = _set("bash bat cmd console fish powershell ps1 pwsh sh shell terminal zsh")
_WORDY = re.compile(r"\S+")


def orders(text: str) -> Iterator[tuple[str, int, int, Compared]]:
    """Reason and place of everything with the form of an order, the gravest first."""
    ours = [marker(name, side) for name in REGION_NAMES for side in ("START", "END")]
    for reason, pattern, compared in _PATTERNS:
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 100) : match.start()]
            if match[0] not in ours and not (reason in _SPARED and _SPARED[reason].search(before)):
                yield reason, match.start(), match.end(), compared
    for start, end in _commands(text):
        yield "a command", start, end, "command"
    for reason, pattern in _LINKS:
        for match in pattern.finditer(text):
            yield reason, match.start(), match.end(), "link"


def _commands(text: str) -> Iterator[tuple[int, int]]:
    """Where commands stand: in blocks and spans of code, and in sentences."""
    for code in _CODE.finditer(text):
        start = code.start("inline") if code["inline"] else code.start("block")
        is_shell = (code["language"] or "").lower() in _SHELLS
        for line in (code["inline"] or code["block"] or "").split("\n"):
            is_asked = bool(code["inline"] and _ORDER.search(text[max(0, code.start() - 20) : code.start()]))
            if _is_command(line, is_shell=is_shell, is_asked=is_asked):
                yield start + len(line) - len(line.lstrip()), start + len(line.rstrip())
            start += len(line) + 1
    prose = _CODE.sub(lambda code: "\0" * len(code[0]), text)
    tokens = list(_WORDY.finditer(prose))
    at = 0
    while at < len(tokens):
        if not _begins_command(prose, tokens, at):
            at += 1
            continue
        last = at
        while last + 1 < len(tokens) and not _ends_command(prose, tokens, last):
            last += 1
        end = tokens[last].end()
        if text[end - 1] in ".,;:!?)" and len(tokens[last][0]) > 1:
            end -= 1
        yield tokens[at].start(), end
        at = last + 1


def _is_command(line: str, *, is_shell: bool, is_asked: bool) -> bool:
    line = re.sub(r"^\s*(?:[$>%]\s+)?(?:\w+=\S*\s+)*", "", line)
    first, *rest = line.split() or [""]
    if not first or line.startswith("#") or _STRICT.fullmatch(line.strip()):
        return False
    if is_shell:
        return True
    name = _program(first)
    is_word = bool(re.fullmatch(r"[\w./~-]+", first))
    has_flags = is_word and any(re.match(r"--?[A-Za-z]", word) for word in rest)
    is_program = name in _PROGRAMS or name in _AMBIGUOUS
    is_path = bool(re.match(r"(?:\.{1,2}|~)?/\S", first)) and bool(rest or re.search(r"\.\w+$", first))
    pipes = re.search(rf"\|\s*(?:sudo\s+)?(?:{_SHELL})\b|\$\(\w", line)
    is_verb = name.startswith(("invoke-", "start-process", "set-executionpolicy"))
    plain = is_asked and "(" not in line and is_word
    return bool((is_program and rest) or has_flags or (is_path and is_asked) or pipes or is_verb or plain)


def _program(token: str) -> str:
    name = re.split(r"[/\\]", token.strip("\"'(,;"))[-1].casefold()
    return name.removesuffix(".exe").rstrip(".,:;!?)")


def _begins_command(prose: str, tokens: list[re.Match[str]], at: int) -> bool:
    token, following = tokens[at][0], tokens[at + 1][0] if at + 1 < len(tokens) else ""
    name, start = _program(token), tokens[at].start()
    is_asked = bool(_VERB.search(prose[max(0, start - 20) : start]))
    if re.match(r"\.{1,2}/\w", token):
        return is_asked or following.startswith("-")
    if name not in _PROGRAMS and name not in _AMBIGUOUS:
        return False
    after = tokens[at + 2][0].strip(".,;:") if at + 2 < len(tokens) else ""
    if token[-1] in ".,;:!?" or following.strip(".,;:") in _STOPS | _NOUNS:
        return is_asked and name in _PROGRAMS and name not in ("git", "docker")
    has_argument = bool(re.match(r"-{1,2}\w|[|<>&]|.*[/=~$:]\w|\d+$|.*\w\.\w", following))
    is_verb = following.strip(".,;:") in _VERBS and after not in _NOUNS
    if name in _AMBIGUOUS:
        return is_asked or bool(re.match(r"-{1,2}[A-Za-z]|~?/\S|<<", following))
    return has_argument or is_verb or (is_asked and bool(following) and following not in _NOUNS)


def _ends_command(prose: str, tokens: list[re.Match[str]], last: int) -> bool:
    """Whether a command in a sentence ends with this token."""
    token, following = tokens[last], tokens[last + 1]
    gap = prose[token.end() : following.start()]
    is_joined = token[0] in ("|", "&&", "||", ";") or following[0] in ("|", "&&", "||")
    if "\n\n" in gap or (("\n" in gap) and re.match(r"[-*+#>]$|\d+[.)]$", following[0])):
        return True
    ended = token[0][-1] in ".,;:!?)" and len(token[0]) > 1
    is_stop = following[0].strip(".,;:!?").casefold() in _STOPS or "\0" in following[0]
    return not is_joined and (ended or is_stop)
