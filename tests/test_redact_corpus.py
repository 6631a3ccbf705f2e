"""Redaction, counted: credentials of many providers in every place where logs and transcripts put them, and
ordinary lines that must stay as they are.

All values are made up. Long runs are put together here, so that no scanner of secrets takes this file for a
leak.
"""

from __future__ import annotations

import html
import json
import time
from urllib.parse import quote

import pytest

from skillopt.redact import MARK, redact_patterns, redact_transcript

HEX = "0123456789abcdef" * 10
MIX = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA" * 6
UPPER = "A1B2C3D4E5F6G7H8J9K0LMNPQRSTUVWX" * 3
UUID = "123e4567-e89b-42d3-a456-426614174000"

SHAPES = {
    "openai": "sk-" + MIX[:48],
    "openai project": "sk-proj-" + MIX[:60],
    "anthropic": "sk-ant-api03-" + MIX[:60],
    "openrouter": "sk-or-v1-" + HEX[:64],
    "groq": "gsk_" + MIX[:52],
    "perplexity": "pplx-" + MIX[:48],
    "replicate": "r8_" + MIX[:37],
    "nvidia": "nvapi-" + MIX[:64],
    "xai": "xai-" + MIX[:60],
    "cerebras": "csk-" + MIX[:48],
    "tavily": "tvly-dev-" + MIX[:32],
    "langsmith": f"lsv2_pt_{HEX[:32]}_{HEX[:10]}",
    "pinecone": "pcsk_" + MIX[:60],
    "elevenlabs": "sk_" + HEX[:48],
    "hugging face": "hf_" + MIX[:34],
    "github": "ghp_" + MIX[:36],
    "github fine": "github_pat_11" + MIX[:60],
    "gitlab": "glpat-" + MIX[:20],
    "gitlab deploy": "gldt-" + MIX[:20],
    "atlassian": "ATATT3" + MIX[:120],
    "bitbucket": "ATBB" + MIX[:32],
    "npm": "npm_" + MIX[:36],
    "pypi": "pypi-" + MIX[:80],
    "rubygems": "rubygems_" + HEX[:48],
    "crates": "cio" + MIX[:32],
    "docker": "dckr_pat_" + MIX[:27],
    "buildkite": "bkua_" + HEX[:40],
    "sonar": "squ_" + HEX[:40],
    "sourcegraph": "sgp_" + HEX[:40],
    "circleci": f"CCIPAT_{MIX[:22]}_{HEX[:40]}",
    "postman": f"PMAK-{HEX[:24]}-{HEX[:34]}",
    "aws": "AKIA" + UPPER[:16],
    "aws bedrock": "ABSK" + MIX[:100],
    "google": "AIza" + MIX[:35],
    "google oauth": "GOCSPX-" + MIX[:28],
    "google refresh": "1//0" + MIX[:60],
    "alibaba": "LTAI" + MIX[:20],
    "tencent": "AKID" + MIX[:32],
    "digitalocean": "dop_v1_" + HEX[:64],
    "databricks": "dapi" + HEX[:32],
    "vault": "hvs." + MIX[:40],
    "terraform": f"{MIX[:14]}.atlasv1.{MIX[:60]}",
    "fly": "fm2_" + MIX[:60],
    "netlify": "nfp_" + MIX[:36],
    "vercel": "vcp_" + MIX[:40],
    "heroku": "HRKU-" + MIX[:40],
    "supabase": "sbp_" + HEX[:40],
    "planetscale": "pscale_tkn_" + MIX[:43],
    "doppler": "dp.pt." + MIX[:43],
    "pulumi": "pul-" + HEX[:40],
    "tailscale": "tskey-auth-" + MIX[:30],
    "dynatrace": f"dt0c01.{UPPER[:24]}.{UPPER[:64]}",
    "azure application": f"abc8Q~{MIX[:34]}",
    "azure devops": f"{MIX[:76]}AZDO{MIX[:4]}",
    "slack": f"xoxb-123456789012-{MIX[:24]}",
    "discord": f"MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{MIX[:27]}",
    "telegram": f"123456789:AA{MIX[:33]}",
    "sendgrid": f"SG.{MIX[:22]}.{MIX[:43]}",
    "mailgun": "key-" + HEX[:32],
    "mailchimp": HEX[:32] + "-us12",
    "brevo": f"xkeysib-{HEX[:64]}-{MIX[:16]}",
    "resend": f"re_{MIX[:8]}_{MIX[:24]}",
    "twilio": "SK" + HEX[:32],
    "stripe": "sk_live_" + MIX[:24],
    "stripe hook": "whsec_" + MIX[:32],
    "square": "sq0csp-" + MIX[:43],
    "shopify": "shpat_" + HEX[:32],
    "shippo": "shippo_live_" + HEX[:40],
    "easypost": "EZAK" + MIX[:54],
    "notion": "ntn_" + MIX[:46],
    "notion old": "secret_" + MIX[:43],
    "linear": "lin_api_" + MIX[:40],
    "figma": "figd_" + MIX[:40],
    "dropbox": "sl." + MIX[:130],
    "airtable": f"pat{MIX[:14]}.{HEX[:64]}",
    "asana": f"1/1234567890123456:{HEX[:32]}",
    "hubspot": f"pat-na1-{UUID}",
    "launchdarkly": f"sdk-{UUID}",
    "sentry": "sntrys_" + MIX[:60],
    "grafana": f"glsa_{MIX[:32]}_{HEX[:8]}",
    "new relic": "NRAK-" + UPPER[:27],
    "contentful": "CFPAT-" + MIX[:43],
    "typeform": "tfp_" + MIX[:59],
    "octopus": "API-" + UPPER[:26],
    "openshift": "sha256~" + MIX[:43],
    "facebook": "EAA" + MIX[:120],
    "jwt": f"eyJ{MIX[:20]}.eyJ{MIX[:40]}.{MIX[:43]}",
    "age": "AGE-SECRET-KEY-1" + UPPER[:58],
}

PLACES = {
    "a line": "{}",
    "a sentence": "I used {} for it.",
    "a setting": "export SOMETHING={}",
    "json": '{{"value": "{}"}}',
    "json in json": '"{{\\"value\\": \\"{}\\"}}"',
    "after a literal newline": "done\\n{}\\nnext",
    "after a colour": "\x1b[31m{}\x1b[0m",
    "after a letter and a colour": "key\x1b[1;31m{}\x1b[0m",
    "a spelt colour": "\\u001b[31m{}\\u001b[0m",
    "a url": "https://h/x?a=1&k={}&b=2",
    "a quoted equals sign": "value%3D{}%26b",
    "a quoted blank": "value%20{}%20b",
    "an escaped equals sign": "value\\u003d{}",
    "html": "<a title=&quot;{}&quot;>",
    "a command": "curl -H 'X-Auth: {}' https://h",
    "a tab": "a\\t{}\\tb",
    "a table": "| name | {} |",
    "an invisible blank": "key:\u200b{}",
}
"""Eighteen places; each shape is planted in all of them."""


@pytest.mark.parametrize("place", PLACES)
def test_every_shape_is_found_in_every_place(place: str) -> None:
    missed = [
        name
        for name, secret in SHAPES.items()
        for redact in (redact_patterns, redact_transcript)
        if secret in redact(PLACES[place].format(secret))
    ]
    assert missed == []
    assert len(SHAPES) * len(PLACES) >= 300


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_takes_nothing_with_it(name: str) -> None:
    for place in ("a line", "a sentence", "json", "after a literal newline", "after a colour", "a tab"):
        text = PLACES[place]
        assert redact_patterns(text.format(SHAPES[name])) == text.format(MARK)


def test_a_key_in_the_name_of_a_file_is_found() -> None:
    for name in ("github", "stripe", "hugging face", "aws", "groq"):
        assert SHAPES[name] not in redact_patterns(f"sessions/rollout-{SHAPES[name]}.jsonl")


@pytest.mark.parametrize(
    "written", [quote, json.dumps, html.escape, lambda key: key[:9] + "\x1b[01;31m" + key[9:] + "\x1b[m"]
)
def test_an_encoded_or_coloured_key_is_found_as_a_whole(written) -> None:
    for key in (SHAPES["openai"], SHAPES["atlassian"], SHAPES["telegram"]):
        assert MIX[9:24] not in redact_patterns(f"before {written(key)} after").replace("\x1b[01;31m", "")


NAMED = [
    ("Server=x;Password={a;b};User=ann", "a;b"),
    ("Pwd={pass=word;1};", "pass=word;1"),
    ('token="abc\\"def123"', "def123"),
    ('{"token": "abc\\\\\\"def123"}', "def123"),
    ("api_key=abcdef-ghijkl", "abcdef-ghijkl"),
    ("API_KEY%3Dabcdef1234567", "abcdef1234567"),
    ("api_key\\u003dabcdef1234567", "abcdef1234567"),
    ("password%3A%20hunter2x", "hunter2x"),
    ("\\npassword=hunter2x\\n", "hunter2x"),
    ("\x1b[1mpassword\x1b[0m=\x1b[32mhunter2x\x1b[0m", "hunter2x"),
    ("&quot;password&quot;: &quot;hunter2x&quot;", "hunter2x"),
    ("sshpass -p hunter2 ssh ann@host", "hunter2"),
    ("sshpass -p'open sesame' ssh host", "open"),
    ("mysql -u root -phunter2 shop", "hunter2"),
    ("mysqldump --user=root -psesame shop > x.sql", "sesame"),
    ("redis-cli -h db -a sesame ping", "sesame"),
    ("ldapsearch -x -D cn=admin -w sesame -b dc=x", "sesame"),
    ("docker login -u ann -p sesame registry", "sesame"),
    ("smbclient -U ann%sesame //h/share", "sesame"),
    ("openssl rsa -passin pass:sesame -in k.pem", "sesame"),
    ("app --password sesame --verbose", "sesame"),
    ("app --db-password=sesame", "sesame"),
    ("app --token abc123def", "abc123def"),
    ("//registry.npmjs.org/:_authToken=abc123-def456", "abc123-def456"),
    ("_auth=YW5uOnNlc2FtZQ==", "YW5uOnNlc2FtZQ"),
    ("PGPASSWORD=sesame psql -h db", "sesame"),
    ("https://discord.com/api/webhooks/123456789012345678/" + MIX[:60], MIX[:60]),
    ("https://api.telegram.org/bot123456789:AA" + MIX[:33] + "/getMe", MIX[:33]),
    ("https://" + HEX[:32] + "@o12345.ingest.sentry.io/678", HEX[:32]),
    ("https://x.webhook.office.com/webhookb2/" + UUID, UUID),
]


@pytest.mark.parametrize(("text", "secret"), NAMED)
def test_a_secret_behind_its_name_or_in_a_command_is_found(text: str, secret: str) -> None:
    for around in (text, f"$ {text}\n", f"before\n{text} after"):
        assert secret not in redact_transcript(around)


ORDINARY = """\
def login(user: str, password: str, token: str | None = None) -> Session:
    password = getpass.getpass("Password: ")
    token = os.environ["API_TOKEN"]
    api_key = settings.api_key or read_key(path)
client = OpenAI(api_key=api_key, base_url=base_url)
    key=lambda item: item.score
for key, value in sorted(table.items(), key=itemgetter(1)):
parser.add_argument("--token", help="the token of the bot")
parser.add_argument("--password", required=True)
secret = secrets.token_hex(16)
assert token == expected_token, "token differs"
if not hmac.compare_digest(token, expected):
export PATH=/usr/local/bin:$PATH
export API_KEY=$OPENAI_API_KEY
API_KEY=${API_KEY:-}
password: "{{ vault_password }}"
password: ${DB_PASSWORD}
token: <your-token>
api_key: YOUR_API_KEY
PASSWORD={password}
f"Password={password};User={user}"
Set the password in the settings and restart the server.
The token is refreshed every hour; a token count above 4096 is an error.
max_tokens=16384, token_limit: 200000, tokens: 1234567
prompt_tokens=812, completion_tokens=64, total_tokens=876
sort_key=created_at, primary_key=order_id, cache_key="user/12"
The key is to read the table from the left. Keys: up, down, enter.
Press the key marked Esc. A secret garden. The password policy is strict.
commit da39a3ee5e6b4b0d3255bfef95601890afd80709
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
id: 123e4567-e89b-42d3-a456-426614174000
etag "33a64df551425fcc55e4d42a148795d9f25f89d4"
index 83db48f..bf269f4 100644
md5 d41d8cd98f00b204e9800998ecf8427e  empty.txt
https://example.org/a/b?page=2&sort=asc&lang=en#top
https://example.org/search?q=token+ring&key=abc
http://localhost:8000/v1/chat/completions
git clone git@github.com:ann/shop.git
git log --oneline -p src/app.py
docker run -p 8080:80 -u 1000 nginx
docker compose -p shop up -d
ssh -p 2222 host.example
mkdir -p build/lib && cp -p a b
mysql -u root -p shop
mysql --help | less -p option
tar -b 20 -cf x.tar a
grep -U pattern file%20name
pytest -p no:cacheprovider -k token
curl -X POST -H 'Content-Type: application/json' http://localhost/x
curl -o key.json https://example.org/key.json
npm install --save-dev key-tree@1.2.3
pip install secret-santa==2.0.1
sk-learn, task-1, risk-management-of-the-project, disk-usage
from sklearn import key_metrics
re_match = re_compile(pattern); api-version: 2024-10-21
api-gateway-v2 and sdk-for-python are packages
key-value-store-with-a-rather-long-name-here
secret_santa_list_of_the_whole_office_2026.txt
sl.append(1); hvs.get(x); dp.pt.x = 1
SKU 12345678, SK-II, SKIING; AKIAS is no key; EZ come, EZ go
API-first design; API-driven; LTAILORED; MNOPQRSTUVWXYZ
AT&T, ATBB, ATATT; EAAA; cio; oy2; GR1348941
the fc-cache and fc-list programs; fw_update; figd_; ntn_
pat-a-cake, pat-eu-rope; tskey-; pul-monary
Bearer of bad news; bearer bonds; basic authorization is explained below
Authorization: Bearer <token>
Authorization: Basic principles
Cookie: a small file that a site leaves behind
Set-Cookie is a header
2026-11-14T09:00:00Z, 1794646800000, 3.14159, 127.0.0.1:8000
version 10.15.7 build 19H2, x86_64-linux-gnu
12:34:56.789 INFO worker-3 finished job 8f14e45f in 12 ms
Traceback (most recent call last):
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
ValueError: invalid literal for int() with base 10: 'abc'
{"role": "assistant", "content": "The answer is 42.", "tokens": 12}
{"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "bash"}
{"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "model": "m", "stop_reason": "end_turn"}
"request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"
chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ01
call_abcdef0123456789 and run_20261114_090000
C:\\new\\table\\users\\readme.txt
"line one\\nline two\\ttabbed\\"quoted\\""
100%25 sure, 50% off, a%20b, %s %d %(name)s
\\u00e4\\u00f6\\u00fc and \\x41
&lt;div class=&quot;key&quot;&gt; &amp; more
-----BEGIN CERTIFICATE-----
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 public half
pk_live_ is what a browser may see
Überraschung: naïve café — “quotes” … 中文 テスト
SELECT token, key FROM sessions WHERE user = 12 AND secret IS NULL
CREATE TABLE t (key TEXT PRIMARY KEY, token TEXT NOT NULL)
<input type="password" name="password" placeholder="Password">
const token = await getToken(user); setToken(token)
self._token = token
return {"token": token, "secret": secret}
token=None, password="", secret=''
if key == "password": return mask(value)
kubectl get secret db -o yaml
kubectl create secret generic db --from-file=password.txt
The passphrase: think of four words.
- [ ] rotate the api key (see the wiki)
Passwords must have 12 characters; the credential store is full.
pwd && ls -la
lorem ipsum dolor sit amet, consectetur adipiscing elit
abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789
""".splitlines()


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_stays_as_it_is(line: str) -> None:
    """Each as it stands and as a string of JSON: more than two hundred lines in all."""
    assert len(ORDINARY) >= 100
    for text in (line, json.dumps({"text": f"{line}\n"})):
        assert redact_patterns(text) == text
        assert redact_transcript(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        *("\x1b[", "\\", "\\u00", "%", "%25", "&#", "&quot", "\u200b", "%3D", "\\n", "dapi", "sshpass -p "),
        *(
            "mysql ",
            "mysql -p",
            "--password ",
            "-U a%",
            "login ",
            "123456789:A",
            "M" * 24 + ".",
            "Password={",
        ),
        "api_key=a-",
    ],
)
def test_text_full_of_encodings_and_near_misses_takes_linear_time(unit: str) -> None:
    redact_transcript(unit)  # patterns are compiled when they are first needed
    started = time.process_time()
    redact_transcript(unit * (80_000 // len(unit)))
    assert time.process_time() - started < 10
