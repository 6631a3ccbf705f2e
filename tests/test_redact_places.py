"""Redaction of credentials where people keep them: YAML blocks, here-documents, JSON in JSON, `.netrc`,
kubeconfig, XML, shells of every kind; and ordinary lines beside them.

All values are made up, and put together here, so that no scanner of secrets takes this file for a leak.
"""

from __future__ import annotations

import base64
import json

import pytest

from skillopt.redact import redact_patterns, redact_transcript

A = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5zA7bC9d"
B = "x7Kq2Wm9Lp4Rt6Yz8Nc1Vb3Hd5Jf0GsA"
HEX = "3f9a1c7e5b2d8f6a4c0e9b7d1f3a5c8e2b4d6f809c1e7b3d5f2a8c4e6b0d9f71"
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PASSWORD = "c0rrect-H0rse-Batt3ry"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PLACES = [
    ("password: |\n    {}\n  user: app", PASSWORD),
    ("auth:\n  api_token: >-\n    {}\n", A),
    ("cat > .env <<EOF\nDATABASE_PASSWORD={}\nPORT=80\nEOF\n", PASSWORD),
    ("cat <<'X' > ~/.netrc\nmachine api.heroku.com\n  login ann\n  password {}\nX\n", B),
    ("machine github.com login octo password {}", B),
    ("git clone https://octocat:{}@git.example.org/a/b.git", PASSWORD),
    ("pip install --index-url https://{}@pypi.example.org/simple x", A),
    ("REDIS_URL=redis://:{}@cache.internal:6379/0", PASSWORD),
    ('uri = "mongodb+srv://root:{}@c0.abcde.mongodb.net/db"', PASSWORD),
    (json.dumps(json.dumps({"client_secret": B})).replace(B, "{}"), B),
    (json.dumps(json.dumps(json.dumps({"password": B}))).replace(B, "{}"), B),
    ("\x1b[32mOPENAI_API\x1b[0m_KEY\x1b[1m=\x1b[0m{}", A),
    ("ghp_\x1b[31maB3d\x1b[0m{}", A),
    ("curl -H 'Authorization: Basic {}' https://x.example", b64(f"deploy:{PASSWORD}")),
    ('"auths": {"ghcr.io": {"auth": "{}"}}', b64(f"robot$ci:{PASSWORD}")),
    ('"{\\"auths\\": {\\"ghcr.io\\": {\\"auth\\": \\"{}\\"}}}"', b64(f"robot$ci:{PASSWORD}")),
    ("users:\n- name: admin\n  user:\n    token: {}\n", A),
    ("    client-key-data: {}", b64(f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n")),
    ('"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"', PEM),
    ("-----BEGIN EC PRIVATE KEY-----\\\\n{}\\\\n-----END EC PRIVATE KEY-----", PEM),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n... (output truncated)", PEM),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n=abcd\n-----END PGP PRIVATE KEY BLOCK-----", PEM),
    ("sk-ant-admin01-{}-AAA", A + B),
    ("sk-svcacct-{}_x", A),
    ("glrt-t1_{}", B),
    ("BLOB_READ_WRITE_TOKEN=vercel_blob_rw_x7Kq2_{}", B),
    ("v1.0-3f9a1c7e5b2d8f6a4c0e9b7d-{}", (HEX * 3)[:146]),
    ("dp.st.prd.{}", A),
    ("OP_SERVICE_ACCOUNT_TOKEN=ops_eyJ{}", A * 3),
    ("phx_{}", A + "abc"),
    ("xapp-1-A01B2C3D4E5-1234567890123-{}", HEX),
    ("export AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjE{}/x==", A),
    ("[default]\naws_secret_access_key = wJalr/{}\n", A[:34]),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;EndpointSuffix=x", A + A),
    ("https://a.blob.core.windows.net/c?sv=2024-11-04&ss=b&sig={}%3D", A),
    ("[pypi]\nusername = __token__\npassword = {}", A),
    ("protocol=https\nhost=github.com\nusername=x\npassword={}", B),
    ("PGPASSWORD='it''s{}' psql -h db", PASSWORD),
    ("curl -u admin:{} https://es.example.org", PASSWORD),
    ("{'api_key': '{}', 'n': 3}", A),
    ("<Password>{}</Password>", PASSWORD),
    ("&lt;db:password&gt;{}&lt;/db:password&gt;", PASSWORD),
    ("token&#61;{}", A),
    ("api_key=&quot;{}&quot;", A),
    ('$env:GITHUB_TOKEN = "{}"', A),
    ("set -gx MISTRAL_API_KEY {}", B),
    ("setx COHERE_API_KEY {}", A),
    ("docker run -e POSTGRES_PASSWORD={} postgres", PASSWORD),
    ("kind: Secret\ndata:\n  password: {}\n", b64("S3cretKubePass")),
    ("otpauth://totp/Acme:me?secret={}&issuer=Acme", "JBSWY3DPEHPK3PXPJBSWY3DP"),
    ('-    OPENAI_API_KEY: ""\n+    OPENAI_API_KEY: "{}"', A),
    ("password\uff1d{}", PASSWORD),
]


@pytest.mark.parametrize(("place", "secret"), PLACES)
def test_a_credential_is_found_where_people_keep_it(place: str, secret: str) -> None:
    """As it lies in a file, and in a transcript's string of it."""
    text = place.replace("{}", secret)
    assert secret in text
    for written in (text, json.dumps({"text": text}, ensure_ascii=False)):
        assert secret not in redact_transcript(written)


ORDINARY = """\
The token count of the prompt was 4096 and the key idea is to keep it below 8192.
export OPENAI_API_KEY=$(pass show openai)
secret_key_base: <%= ENV["SECRET_KEY_BASE"] %>
Please enter your password: |
password: >
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
https://docs.example.org/guides/authentication#api-keys
curl -u "$USER:$PASS" https://example.org
const key = event.key === "Enter" ? submit() : null;
primary_key=True, foreign_key="users.id"
passwordField.setText("")
assert response.headers["Authorization"].startswith("Bearer ")
secretName: tls-cert
imagePullSecrets: [regcred]
"auth": "required", "auth": "none"
"sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozfQ=="
certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM1ekNDQWMrZ0F3SUJBZ0lCQURBTkJna3Foa2lHOXcwQkFRc0ZBREFWCg==
The machine was slow and the login page hung; password reset link sent.
csrf_token: {{ csrf_token() }}
<label for="password">Password</label><td>Password</td>
<password/> <password></password> <token>str</token>
pad_token_id=50256, eos_token: "</s>"
monkey=banana turkey: 12
hf_hub_download(repo_id="a/b", filename="c.bin")
v1.0-beta.2 and phx_ are no keys
class AccessKeyRotationPolicy(BaseModel):
token: string; refreshToken?: string;
SELECT key, value FROM settings WHERE key = 'theme';
""".splitlines()


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_beside_them_stays(line: str) -> None:
    for text in (line, json.dumps({"text": f"{line}\n"})):
        assert redact_transcript(text) == text == redact_patterns(text)
