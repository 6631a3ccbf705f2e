"""Finds credentials by their shape: what providers hand out begins or is built in a way nothing else is.

The shapes are those that the providers document; where they do not, they follow the rules of gitleaks (MIT)
and detect-secrets (Apache-2.0), rewritten for this table.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from skillopt.redact._spans import Span, compiled, is_token, occurrences, secret

_HEX, _ALNUM, _WORD = "[a-f0-9]", "[A-Za-z0-9]", r"[\w-]"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_PREFIXED = {
    # models and their tools
    "sk-": (
        rf"(?:(?:ant|proj|svcacct|admin|or|lf)-{_WORD}{{16,}}"
        rf"|(?:[a-z0-9]{{1,16}}-)?(?:{_ALNUM}{{20,}}|(?=[A-Za-z]{{0,15}}\d){_ALNUM}{{16,}}){_WORD}*)"
    ),
    **dict.fromkeys(("hf_", "gsk_", "jina_", "r8_"), rf"{_ALNUM}{{30,}}"),
    **dict.fromkeys(("xai-", "pplx-", "tvly-", "csk-"), rf"{_WORD}{{20,}}"),
    "nvapi-": rf"{_WORD}{{40,}}",
    "pcsk_": r"\w{40,}",
    "tgp_v1_": rf"{_WORD}{{30,}}",
    "wandb_v1_": r"\w{30,}",
    "fc-": rf"{_HEX}{{32}}(?!\w)",
    "fw_": rf"{_ALNUM}{{20,}}",
    **dict.fromkeys(("lsv2_pt_", "lsv2_sk_"), rf"{_HEX}{{32}}_{_HEX}{{10}}"),
    "sk_": rf"(?:(?:live|test)_{_ALNUM}{{16,}}|{_HEX}{{48}}(?!\w))",
    # code and packages
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rf"{_ALNUM}{{20,}}"),
    "github_pat_": r"\w{20,}",
    **dict.fromkeys(
        (
            *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glptt-", "glimt-", "glagent-"),
            *("gloas-", "pypi-", "dckr_pat_", "dckr_oat_"),
        ),
        rf"{_WORD}{{20,}}",
    ),
    "GR1348941": rf"{_WORD}{{20}}",
    **dict.fromkeys(("ATATT3", "ATCTT3", "ATBB"), r"[\w=.-]{20,}"),
    **dict.fromkeys(("npm_", "nfp_"), rf"{_ALNUM}{{30,}}"),
    "rubygems_": rf"{_HEX}{{48}}",
    "cio": rf"{_ALNUM}{{32}}(?!\w)",
    "CLOJARS_": r"[a-z0-9]{60}",
    "oy2": r"[a-z0-9]{43}(?!\w)",
    "AKCp": rf"{_ALNUM}{{60,}}",
    **dict.fromkeys(("bkua_", "sgp_", "squ_", "sqp_", "sqa_"), r"\w{40,}"),
    "CCIPAT_": rf"{_ALNUM}{{22}}_{_HEX}{{40}}",
    "PMAK-": rf"{_HEX}{{24}}-{_HEX}{{34}}",
    # clouds and hosting
    **dict.fromkeys(("AKIA", "ASIA"), r"[A-Z0-9]{16}(?![A-Z0-9])"),
    "ABSK": r"[A-Za-z0-9+/]{60,}={0,2}",
    "1//0": rf"{_WORD}{{40,}}",
    "LTAI": rf"{_ALNUM}{{12,30}}(?!\w)",
    "AKID": rf"{_ALNUM}{{13,40}}(?!\w)",
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_"), rf"{_HEX}{{40,}}|{_WORD}{{20,}}"),
    "dapi": rf"{_HEX}{{32}}(?:-\d)?(?!\w)",
    **dict.fromkeys(("ya29.", "GOCSPX-", "hvs.", "hvb.", "hvr.", "sb_secret_"), rf"{_WORD}{{20,}}"),
    **dict.fromkeys(("fo1_", "fm1a_", "fm1r_", "fm2_"), r"[\w+/=-]{40,}"),
    **dict.fromkeys(("vcp_", "vci_", "vca_", "vcr_", "vck_"), rf"{_ALNUM}{{24,}}"),
    **dict.fromkeys(("AIza", "HRKU-"), rf"{_WORD}{{30,}}"),
    **dict.fromkeys(("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), r"[\w.-]{32,}"),
    **dict.fromkeys(("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), r"[\w.-]{20,}"),
    **dict.fromkeys(("sbp_", "pul-"), rf"{_HEX}{{40}}"),
    "v1.0-": rf"{_HEX}{{24}}-{_HEX}{{140,}}",
    "tskey-": r"[a-z]{2,10}-[A-Za-z0-9-]{16,}",
    "sha256~": rf"{_WORD}{{43}}",
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{20,}",
    "ops_eyJ": r"[A-Za-z0-9+/=]{60,}",
    **dict.fromkeys(("dt0c01.", "dt0s16."), r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    # talk, mail, money, work
    **dict.fromkeys(("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-"), r"[A-Za-z0-9.-]{10,}"),
    **dict.fromkeys(("xoxp-", "xoxr-", "xoxs-", "xapp-"), r"[A-Za-z0-9-]{10,}"),
    "mfa.": rf"{_WORD}{{80,}}",
    "SG.": rf"{_WORD}{{16,}}\.{_WORD}{{16,}}",
    "key-": r"[0-9a-z]{32}(?!\w)",
    "xkeysib-": rf"{_HEX}{{64}}-{_ALNUM}{{16}}",
    "re_": rf"{_ALNUM}{{8}}_{_ALNUM}{{24}}",
    "SK": rf"{_HEX}{{32}}(?!\w)",
    "rk_": rf"(?:live|test)_{_ALNUM}{{16,}}",
    "whsec_": r"[A-Za-z0-9+/=]{24,}",
    **dict.fromkeys(("sq0atp-", "sq0csp-", "sq0idp-"), rf"{_WORD}{{22,}}"),
    "EAAA": rf"{_WORD}{{60}}",
    "EAA": rf"{_ALNUM}{{80,}}",
    **dict.fromkeys(("access_token$production$", "access_token$sandbox$"), r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    **dict.fromkeys(("shpat_", "shpca_", "shppa_", "shpss_"), r"[a-fA-F0-9]{32}"),
    **dict.fromkeys(("shippo_live_", "shippo_test_"), rf"{_HEX}{{40}}"),
    **dict.fromkeys(("EZAK", "EZTK"), rf"{_ALNUM}{{54}}"),
    "ntn_": rf"{_ALNUM}{{40,}}",
    "secret_": rf"{_ALNUM}{{43}}(?!\w)",
    "lin_api_": rf"{_WORD}{{20,}}",
    **dict.fromkeys(("figd_", "figo_", "figu_"), rf"{_WORD}{{36,}}"),
    "sl.": rf"{_WORD}{{60,}}",
    **dict.fromkeys(("pat-na", "pat-eu"), rf"\d-{_UUID}"),
    **dict.fromkeys(("sdk-", "api-"), rf"{_UUID}(?!\w)"),
    **dict.fromkeys(("sntrys_", "sntryu_"), r"[\w+/=-]{30,}"),
    "glsa_": rf"{_ALNUM}{{32}}_[A-Fa-f0-9]{{8}}",
    "glc_": r"[A-Za-z0-9+/]{32,}={0,2}",
    **dict.fromkeys(("NRAK-", "NRII-", "NRRA-"), r"[A-Za-z0-9_-]{24,}"),
    "NRJS-": rf"{_HEX}{{19}}",
    "CFPAT-": rf"{_WORD}{{40,}}",
    "tfp_": r"[\w.=-]{40,}",
    "phx_": rf"{_ALNUM}{{40,}}",
    "API-": r"[A-Z0-9]{26}(?!\w)",
    "sk.eyJ": rf"{_WORD}{{40,}}\.{_WORD}{{20,}}",
    "eyJ": rf"{_WORD}{{8,}}\.eyJ{_WORD}{{8,}}\.{_WORD}{{8,}}",
}
"""What follows each prefix."""

_BODIES = {prefix: compiled(body) for prefix, body in _PREFIXED.items()}


def _is_private_key(encoded: str) -> bool:
    """A certificate in base64 begins like a private key."""
    return b"PRIVATE KEY" in base64.b64decode(encoded[:88])


_TEMPLATE = compiled(r"\$?\{{1,2}[\w.!: -]{1,60}\}{1,2}|\$[A-Z_]+|%s")
"""What stands for a password where a URL is put together."""

_RULES = (
    secret(
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        # up to its END; without one (a cut text) only what looks like the key's own lines
        r"(?:[^-]*(?:-(?!----)[^-]*)*-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?:"
        r" BLOCK)?-----|(?:[A-Za-z0-9+/=\r\n]|\\[nr])*)",
    ),
    secret(("LS0tLS1CRUdJT",), r"(?<![A-Za-z0-9+/])LS0tLS1CRUdJT[A-Za-z0-9+/]{75,}={0,2}", _is_private_key),
    secret((".",), r"(?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),  # Discord
    secret((":A",), r"(?<!\d)\d{8,12}:A[\w-]{34}(?![\w-])"),  # Telegram, also behind /bot
    secret(("-us",), r"(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)"),  # Mailchimp
    secret(("-",), r"(?<![\w-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![\w-])"),  # Mailgun
    secret(("Q~",), r"(?<![\w.~-])[\w.~-]{3}\dQ~[\w.~-]{30,36}(?![\w.~-])"),  # Azure application
    secret(("AZDO",), r"(?<!\w)[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?!\w)"),  # Azure DevOps
    secret((".atlasv1.",), r"(?<!\w)[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}"),  # Terraform
    secret(("pat",), r"(?<!\w)pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),  # Airtable
    secret(("/",), r"(?<![\w/])[12]/\d{16}(?:/\d{16})?:[0-9a-f]{32}(?!\w)"),  # Asana
    secret(
        ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{10,})"
    ),
    secret(("/api/webhooks/",), r"/api/webhooks/\d{6,24}/(?P<secret>[\w-]{20,})"),
    secret((".webhook.office.com/",), r"\.webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{20,})"),
    secret(("hooks.zapier.com/",), r"hooks\.zapier\.com/hooks/catch/(?P<secret>[\w/]{8,})"),
    secret(("://",), r"://(?P<secret>[0-9a-f]{32})@"),  # Sentry
    secret(
        ("earer", "EARER"), r"(?i)(?<!\w)bearer[ \t]{1,4}\\{0,3}[\"']?(?P<secret>[\w.~+/=-]{16,})", is_token
    ),
    secret(
        ("asic", "ASIC"),
        r"(?i)authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?basic[ \t]{1,4}(?P<secret>[\w+/=-]{8,})",
        is_token,
    ),
    secret(
        ("://",),
        # up to the last @ before the host: a password may hold one
        r"://[^\s/:@\"'<>]*:(?P<secret>[^\s/@\"'<>]+(?:@+[^\s/@\"'<>\\,;()]+)*)(?=@)",
        lambda value: _TEMPLATE.fullmatch(value) is None,
    ),
    secret(
        ("key=", "token=", "secret=", "password=", "sig="),
        r"(?i)[?&](?:api[-_]?key|key|access_token|token|client_secret|secret|password|sig)="
        r"(?P<secret>[^&\s\"'#<>]{6,})",
    ),
)


def credentials(text: str) -> Iterator[Span]:
    """Where well-known credentials stand."""
    for prefix, body in _BODIES.items():
        done = 0
        for start in occurrences(prefix, text):
            before = text[start - 1] if start else " "
            # "sk-" after a dash is a word such as "ask-sk-...", but nothing else has "ghp_" in it.
            is_word = (before.isascii() and before.isalnum()) or (before in "_-" and prefix.endswith("-"))
            if start < done or is_word:
                continue
            if match := body.match(text, start + len(prefix)):
                done = match.end()
                yield start, done
    for rule in _RULES:
        yield from rule.spans(text)
