"""Ordinary lines that redaction must leave as they are: code, settings, paths, commands, logs and prose that
stand close to the shapes of credentials.
"""

from __future__ import annotations

import json

import pytest

from skillopt.redact import redact_patterns, redact_transcript

CODE = r"""
def reset_password(user: User, *, token: str = "") -> None:
    password: SecretStr = Field(min_length=12)
    if password == "": raise ValueError("password is empty")
    if token["type"] == "string" and token["value"] is None:
    self.token = Token(kind=Kind.NAME, text=text[start:end])
    token = next(tokens, None)
    token = lexer.token()
    tokens = [token for token in line.split() if token]
    token_type, token_value = token.kind, token.text
    password = form.cleaned_data["password"]
    passwords = read_lines(path)
    secret = hashlib.sha256(seed).hexdigest()
    secret: str | None = None
    credentials = load_credentials(path)
    credentials: Credentials = credentials or Credentials()
    api_key = os.getenv("OPENAI_API_KEY")
    api_key = os.environ.get("OPENAI_API_KEY", "")
    os.environ.setdefault("API_KEY", "")
    return getattr(settings, "api_key", None)
    config.get("password", None)
    form.fields["password"].widget = PasswordInput()
    request.headers.get("Authorization", "")
    headers["Authorization"] = f"Bearer {token}"
    headers = {"Authorization": "Bearer " + token}
    "Authorization": `Bearer ${token}`,
    Authorization: Bearer $TOKEN
    Authorization: Bearer YOUR_ACCESS_TOKEN
    "Authorization": "Bearer <access token>"
    if not header.startswith("Bearer "):
    scheme, _, token = header.partition(" ")
    raise HTTPError(401, "Bearer token is missing")
    res.setHeader("WWW-Authenticate", 'Bearer realm="api"')
    expect(screen.getByLabelText("Password")).toBeVisible();
    <input name="password" value="" type="password">
    <label htmlFor="password">Password</label>
    <input type="hidden" name="page" value="12">
    <property name="username" value="ann"/>
    <property name="password" value="${db.password}"/>
    <add key="Retries" value="5"/>
    <Field name="token" value={token} onChange={setToken} />
    {"name": "PORT", "value": "8080"}
    {"name": "PASSWORD", "value": ""}
    {"name": "password", "type": "string", "required": true}
    {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    - name: LOG_LEVEL
    const { password, ...rest } = user;
    const [password, setPassword] = useState("");
    let token: Option<Token> = None;
    let key = keys.get("token").unwrap_or_default();
    match token { Token::Name(name) => name, _ => return }
    fn parse_token(input: &str) -> Result<Token, Error> {
    func (t *Token) String() string { return t.text }
    type Token struct { Kind int; Text string }
    password := flag.String("password", "", "password of the database")
    viper.GetString("password")
    props.getProperty("password", defaultValue)
    map.put("password", password);
    String password = request.getParameter("password");
    @Value("${spring.datasource.password}") private String password;
    private final char[] password;
    $password = $_POST['password'] ?? '';
    $token = bin2hex(random_bytes(16));
    attr_accessor :token, :secret
    params.require(:user).permit(:email, :password)
    SELECT password, token FROM users WHERE name = 'ann';
    ALTER TABLE users ADD COLUMN password TEXT NOT NULL;
    ALTER USER ann WITH PASSWORD :'password';
    CREATE USER ann IDENTIFIED BY :password;
    WHERE token IN ('name', 'number', 'string')
    struct Token { int kind; const char *text; };
    enum { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING };
    #define PASSWORD_LENGTH 64
    case TOKEN_NUMBER: return parse_number(token);
    pad_token: "<pad>"
    bos_token: "<s>"
    sep_token = "[SEP]"
    "unk_token": "<unk>", "mask_token": "[MASK]"
    assert "password" not in page.text
    assert mask("secret") == "******"
    @pytest.mark.parametrize("token", ["a", "b"])
    raise UsageError("--password is excluded by --token")
    keys = sorted(table, key=len)
    key = (task.id, draw)
    public_key, private_key = generate()
    private_key = Path("~/.ssh/id_ed25519").expanduser()
    signing_key: SigningKey | None = None
    f"{user}:{password}@{host}"
    url = f"postgres://{user}:{password}@{host}/{name}"
    url = "postgres://ann:${PASSWORD}@db:5432/shop"
    url = "https://%s:%s@%s" % (user, password, host)
    sk_model = sklearn.linear_model.Ridge()
    sk-container, sk-toggleable__content and sk-estimator are classes of a page
    task-1234567890abcdef, disk-1234567890abcdef and risk-1234567890abcdef
    <div class="sk-fading-circle sk-circle-12">
    tokenizer("abcdefghijklmnopqrstuvwxyz")
    secret_word = choose(words)
    passthrough = bypass = compass = True
    class_pass = first_pass + second_pass
    n_pass=12 n_fail=0
    two_pass = True; single_pass: bool = False
    render_pass = RenderPass(scene, camera)
    PASS=12 FAIL=0 SKIP=3
"""

SETTINGS = r"""
PWD=/home/user/project
OLDPWD=/home/user
PWD="/home/user/my project"
declare -x PWD="/srv/app-2/build_7"
"PWD": "/Users/ann/code/shop2",
  PWD: /github/workspace
cd "$OLDPWD" && echo $PWD
pwd: /var/lib/app1
PWD=C:\Users\ann\project1
INIT_CWD=/home/user/project
SSH_AUTH_SOCK=/tmp/ssh-abc/agent.123
password_file: /run/secrets/db
PASSWORD_MIN_LENGTH=12
PASSWORD_HASHERS=argon2
TOKEN_TTL=3600
token_ttl: 15m
token_limit = 4096
max_new_tokens: 256
tokens_per_second=81.3
SECRET_NAME=shop-db
secretRef: {name: shop-db}
secretKeyRef: {name: db, key: password}
key: value
keys: [a, b, c]
sort_key: name
partition_key = "user#12"
public_key: ed25519
api_version: v1
password: *default
<<: *token
password: !secret db_password
password: !env DB_PASSWORD
token: null
secrets: inherit
token: ${{ secrets.GITHUB_TOKEN }}
password: "{{ lookup('env', 'PASSWORD') }}"
password = ""
password=
Pwd={0};Uid={1}
Password={password};
PASSWORD=%DB_PASSWORD%
DB_PASSWORD=$(cat /run/secrets/db)
DB_PASS=$DB_PASS
SMTP_PASS=${SMTP_PASS:?}
requirepass ""
AccountKey={account_key}
AccountKey = {key};
"""

PATHS = r"""
/home/user/project/src/token/secret_key.py
src/auth/password/reset.ts:42:13
tests/test_password=reset.py
C:\Users\ann\AppData\Local\Temp\token.json
./keys/public/token-2026-11-14.txt
/usr/share/doc/passwd/README.Debian
~/.config/gh/hosts.yml
file:///home/ann/notes/api-key-rotation.md
s3://bucket/prefix/key=value/part-0001.parquet
gs://models/sk-learn/v12/model.bin
https://example.org:8443/a@b/c
https://example.org/@ann/post-12
https://example.org/login?next=/password/reset
https://medium.com/@ann/how-to-store-a-token-1a2b3c4d5e6f
http://localhost:3000/users/@me
https://unpkg.com/react@18.2.0/umd/react.js
https://cdn.example.org:443/npm/vue@3.4.1/dist/vue.js
git+ssh://git@github.com/ann/shop.git@v1.2.3
git+https://github.com/ann/shop.git@main#egg=shop
postgres://db:5432/shop
postgresql://ann@db:5432/shop
redis://cache:6379/0
see https://a.example:80/x and write to @ann or @bob
ssh://ann@host:22/srv/git
docker://registry.example.org:5000/a/b@sha256:12ab
"""

COMMANDS = r"""
pwd && cd /tmp && ls
passwd --lock deploy
curl -u "$USER:$PASSWORD" https://h
curl --user $USER https://h
curl -H "Authorization: Bearer $TOKEN" https://h
curl -H "Authorization: Bearer ${TOKEN}" https://h
gh auth token
gh secret set API_KEY --body "$API_KEY"
echo "$PASSWORD" | docker login --password-stdin
vault kv get -field=password secret/db
pass show mail/work
app --password "$PASSWORD" run
app --password-file /run/secrets/db run
app --token-limit 4096 --max-tokens 256
app --key-column id --secret-name db
ssh-keygen -t ed25519 -C ann -f key
openssl rand -hex 16
kubectl create token default
aws secretsmanager get-secret-value --secret-id db
npm token list
sudo -u postgres psql -c 'select 1'
docker run -u 1000:1000 alpine
docker run --user 1000:1000 alpine
chown ann:staff file
rsync -a ann@host:/srv/ .
scp key.pub ann@host:
grep -n "password" -r src | head -20
rg 'token\s*=' --type py
sed -i 's/password/passphrase/' notes.md
git commit -m "Reset the password by token"
pytest tests/test_token.py::test_secret -x
terraform output -raw password
ansible-vault encrypt_string --name password
"""

LOGS = r"""
2026-11-14 09:00:01 INFO token refreshed, expires in 3600 s
2026-11-14 09:00:02 WARN password rejected: too short
2026-11-14 09:00:03 ERROR invalid token: expected ',' or '}'
[auth] session 12 opened for user ann
sshd[812]: Failed password for ann from 10.0.0.7 port 51234 ssh2
sshd[813]: Accepted publickey for ann from 10.0.0.8 port 40022
GET /token 200 12ms
POST /users/12/password 204 8ms
Unexpected token '<', "<!DOCTYPE "... is not valid JSON
SyntaxError: Unexpected token } in JSON at position 812
KeyError: 'password'
error: unexpected token `fi'
parse error near token 'end'
AttributeError: 'Token' object has no attribute 'kind_of_the_token'
token usage: 812 in, 64 out, 876 total
step 12/40 tokens=81234 loss=0.123
PASS tests/password.test.ts (5.2 s)
FAIL tests/token.test.ts: expected "abc" to be "abd"
warning: secret `db` has no key `password`
Bearer authentication is required
Authorization: Bearer tokens are described below
www-authenticate: Bearer error="invalid_token"
key not found: user/12
cache key linux-x64-node-18 restored
Uploading wheel skillopt-0.3.1-py3-none-any.whl
digest: sha256:12ab34cd
pid 4711 exited with code 137
"""

PROSE = r"""
The token is read once, and the password is asked for twice.
A token internationalization is not a thing, uncharacteristically.
Each token counterrevolutionaries, token incomprehensibilities: only words.
Token AuthenticationTokenProviderFactoryBean is a class.
The token electroencephalographic has 23 letters.
What a secret! The secret organization met the credential committee.
The password authentication was replaced by passkeys.
My password is strong, your password is weak, their password is "weak".
The word "password" is the worst password.
The secret of "slow cooking" is patience.
Use the token "end" to close the block.
The token 'name' stands before the token 'value'.
Passwords: see the manual. Secrets: see the vault. Tokens: see below.
The key is under the mat; the keys are on the table.
Set the name password and the value as you like.
He gave the password, she gave the countersign.
A bearer cheque, a bearer bond, the bearer "of" bad news.
Her access token expired, so the token "expired" was shown.
Write to ann at example, or call the office at noon.
The ratio is 12:30 @ 4, the price 5 @ 3.
1. Open the door. 2. Say the password. 3. Enter.
| token | meaning | | name | a word |
| password | what a person types | required |
Choose a passphrase of four words, such as those on the card.
The pass was open; the mountain pass: closed. The first pass = slow.
Boarding pass: gate 12. A free pass: yes.
The credential helper store, the credential manager, the credential file.
"""

LINES = [
    line for part in (CODE, SETTINGS, PATHS, COMMANDS, LOGS, PROSE) for line in part.splitlines() if line
]


@pytest.mark.parametrize("line", LINES)
def test_an_ordinary_line_stays_as_it_is(line: str) -> None:
    for text in (line, json.dumps({"text": f"{line}\n"})):
        assert redact_patterns(text) == text
        assert redact_transcript(text) == text


def test_ordinary_text_stays_as_a_whole() -> None:
    assert len(set(LINES)) >= 200
    whole = "\n".join(LINES)
    assert redact_transcript(whole) == whole
