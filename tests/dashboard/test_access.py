"""Who may come in: the rules by themselves, and the real server asked over raw sockets and streams."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from dashboard._browser import Server, serving
from skillopt_webui._access import Gatekeeper, is_loopback
from skillopt_webui.server import Settings, application

TOKEN = "t0ken-that-nobody-guesses"
LOCAL = Gatekeeper(loopback=True, token=None, cookie="skillopt_1")
SHARED = Gatekeeper(loopback=False, token=TOKEN, cookie="skillopt_1")


def status(keeper: Gatekeeper, method: str = "GET", **headers: str) -> int | None:
    sent = CIMultiDict({"Host": "localhost:7860"})
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    refusal = keeper.refusal(make_mocked_request(method, "/", headers=sent))
    return None if refusal is None else refusal[0]


@pytest.mark.parametrize(
    "host", ["localhost:7860", "127.0.0.1:7860", "[::1]:7860", "localhost", "LOCALHOST:1"]
)
def test_this_machine_is_let_in_by_any_of_its_own_names(host: str) -> None:
    assert status(LOCAL, host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example:7860",
        "127.0.0.1.evil.example",
        "",
        "10.0.0.5:7860",
        "a b",
        "[::1",
    ],
)
def test_a_foreign_name_that_resolves_to_this_machine_is_refused(host: str) -> None:
    assert status(LOCAL, host=host) == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "https://localhost:1",
        "null",
        "",
        "file://",
        "http://localhost:7860.evil",
        "http://[",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_web_page_is_refused_whatever_it_asks(origin: str, method: str) -> None:
    assert status(LOCAL, method=method, origin=origin) == 403


def test_the_same_origin_may_do_everything() -> None:
    for method in ("GET", "POST"):
        assert status(LOCAL, method=method, origin="http://localhost:7860") is None


def test_a_change_without_an_origin_is_refused() -> None:
    assert status(LOCAL, method="POST") == 403
    assert status(LOCAL, method="DELETE") == 403


def test_a_link_may_lead_here_and_a_script_frame_or_image_of_another_page_may_not() -> None:
    assert (
        status(LOCAL, sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")
        is None
    )
    for mode, dest in (
        ("navigate", "iframe"),
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("cors", "empty"),
    ):
        assert status(LOCAL, sec_fetch_site="same-site", sec_fetch_mode=mode, sec_fetch_dest=dest) == 403


def test_without_the_token_nothing_is_shown_and_with_its_cookie_everything_is() -> None:
    assert status(SHARED) == 401
    assert status(SHARED, method="POST", origin="http://localhost:7860") == 401
    assert status(SHARED, cookie=f"other=1; skillopt_1={TOKEN}") is None
    for wrong in (
        f"skillopt_1={TOKEN[:-1]}",
        "skillopt_1=",
        f"skillopt_2={TOKEN}",
        "skillopt_1=ä",
        f"x=1,skillopt_1={TOKEN}",
    ):
        assert status(SHARED, cookie=wrong) == 401


def test_a_host_header_that_comes_twice_is_nobodys() -> None:
    told = CIMultiDict([("Host", "localhost:7860"), ("Host", "localhost:7860")])
    assert LOCAL.refusal(make_mocked_request("GET", "/", headers=told)) is not None


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True), ("0.0.0.0", False)],
)
def test_what_counts_as_this_machines_own_address(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/x",
        "/\\evil.example/x",
        "/\r\n//evil.example/x",
        "/\r\nset-cookie: a=b",
        "/x\nlocation: y",
    ],
)
def test_the_token_leads_nowhere_but_here(path: str) -> None:
    query = f"token={TOKEN}&a=b"
    assert SHARED.presents_token(query)
    answer = SHARED.welcome(path, query)
    where = answer.headers["Location"]
    assert answer.status == 303
    assert where.startswith("/") and not where.startswith(("//", "/\\"))
    assert TOKEN not in where and not re.search(r"\s", where)
    assert answer.headers["Set-Cookie"] == f"skillopt_1={TOKEN}; HttpOnly; SameSite=Lax; Path=/"


def test_the_token_is_in_no_text_of_the_rules() -> None:
    assert TOKEN not in repr(SHARED)


# --- the real server ---


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("dashboard-shared")
    with serving(folder, "--share", opens=True, token=True) as server:
        yield server


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A dashboard that was started without options about who may come in."""
    with serving(tmp_path_factory.mktemp("dashboard-usual"), token=True) as server:
        yield server


async def ask(
    server: Server, path: str = "/launch", method: str = "GET", **headers: str
) -> tuple[int, str, Any]:
    """The answer of the server on this machine's own address, whatever name it printed."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        url = f"http://127.0.0.1:{server.port}{path}"
        async with session.request(method, url, headers=told, allow_redirects=False) as answer:
            return answer.status, await answer.text(), answer.headers


def token_of(server: Server) -> str:
    return parse_qs(urlsplit(server.opened).query)["token"][0]


async def test_a_shared_dashboard_shows_nothing_without_its_token(shared: Server) -> None:
    assert len(token_of(shared)) >= 40
    for path in (
        "/",
        "/launch",
        "/sleep",
        "/launch?token=wrong",
        "/favicon.ico",
    ):
        status, text, _ = await ask(shared, path, host="192.0.2.7:80")
        assert status == 401
        assert "Settings" not in text and token_of(shared) not in text
    assert await stream(shared, host="192.0.2.7:80") == 401


async def test_a_shared_dashboard_takes_its_token_once_and_keeps_it_out_of_the_address(
    shared: Server,
) -> None:
    status, _, headers = await ask(shared, f"/launch?token={token_of(shared)}&x=1", host="192.0.2.7")
    assert (status, headers["location"]) == (303, "/launch?x=1")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
    status, text, _ = await ask(shared, cookie=cookie.partition(";")[0], host="192.0.2.7")
    assert status == 200 and "Launch" in text
    assert await stream(shared, host="192.0.2.7", cookie=cookie.partition(";")[0]) == 200
    # Who has the cookie and opens the printed address once more gets rid of the token, too.
    status, _, headers = await ask(
        shared, f"/nowhere?token={token_of(shared)}", cookie=cookie.partition(";")[0], host="192.0.2.7"
    )
    assert (status, headers["location"]) == (303, "/nowhere")


def test_the_browser_is_opened_by_a_private_file_as_every_user_could_read_the_list_of_processes(
    shared: Server,
) -> None:
    opening = urlsplit(shared.opening())
    page = Path(unquote(opening.path))
    assert opening.scheme == "file" and token_of(shared) not in opening.geturl()
    assert f"url={shared.opened}" in page.read_text()
    assert page.parent.stat().st_mode & 0o077 == 0


async def test_another_account_of_this_machine_gets_nothing_from_any_address_by_any_verb(
    usual: Server,
) -> None:
    settings = Settings(host="127.0.0.1", port=0, roots=[], cwd=usual.folder, environ={})
    router = application(settings, LOCAL, asyncio.Event()).router
    routes = {resource.canonical.replace("{run}", "0123456789abcdef") for resource in router.resources()}
    assert {"/", "/launch", "/sleep"} <= routes and len(routes) >= 10
    own = f"http://127.0.0.1:{usual.port}"
    for path in (*routes, "/?token=", "/?token=wrong", "/favicon.ico", "/static/live.js"):
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for headers in ({}, {"cookie": f"skillopt_{usual.port}="}, {"accept": "text/event-stream"}):
                status, text, given = await ask(usual, path, method, origin=own, **headers)
                assert status == 401, (method, path)
                assert "Set-Cookie" not in given and "Settings" not in text and token_of(usual) not in text


async def test_another_account_of_this_machine_starts_no_program_as_the_person(usual: Server) -> None:
    own, url = f"http://127.0.0.1:{usual.port}", f"http://127.0.0.1:{usual.port}/launch"
    asked = {"verb": "start", "packaged": "quickstart", "model.target": "cmd: touch started"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=asked, headers={"Origin": own}) as answer,
    ):
        assert answer.status == 401
    assert not list(usual.folder.glob("outputs*"))


async def test_with_the_printed_address_a_dashboard_of_this_machine_is_open(usual: Server) -> None:
    assert len(token_of(usual)) >= 40
    _, _, headers = await ask(usual, f"/launch?token={token_of(usual)}")
    status, text, _ = await ask(usual, cookie=headers["set-cookie"].partition(";")[0])
    assert status == 200 and "Launch" in text and "no token" not in text


def test_the_token_stands_in_no_list_of_processes(usual: Server) -> None:
    lists = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    if not lists:
        pytest.skip("this machine has no /proc")
    assert not any(token_of(usual).encode() in words for words in lists)


async def test_a_page_without_a_token_says_who_can_use_it(local: Server) -> None:
    assert "token" not in local.opened
    assert "Without a token: every account of this machine" in local.log.read_text()
    for path in ("/launch", "/no-such-page"):
        assert "every account of this machine can start programs as you" in (await ask(local, path))[1]


async def test_the_token_is_printed_once_and_never_logged_again(shared: Server) -> None:
    await ask(shared, f"/launch?token={token_of(shared)}")
    await ask(shared, "/no-such-page?token=other")
    assert shared.log.read_text().count(token_of(shared)) == 1


async def test_a_dashboard_of_this_machine_refuses_other_pages_and_other_names(local: Server) -> None:
    own = f"http://127.0.0.1:{local.port}"
    assert (await ask(local))[0] == 200
    assert (await ask(local, host="evil.example"))[0] == 421
    assert (await ask(local, method="POST"))[0] == 403
    assert (await ask(local, method="POST", origin=own))[0] == 200
    for origin in ("http://evil.example", "http://localhost:3000", "null"):
        assert (await ask(local, origin=origin))[0] == 403
        assert await stream(local, origin=origin) == 403
    assert await stream(local, sec_fetch_site="cross-site", sec_fetch_mode="cors") == 403
    assert await stream(local, host="evil.example", origin="http://evil.example") == 421
    assert await stream(local, sec_fetch_site="same-origin") == 200


async def stream(server: Server, **headers: str) -> int:
    """Open the stream of a page as a browser does; one that opens says so at once."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        url = f"http://127.0.0.1:{server.port}/launch"
        async with session.get(url, headers={"Accept": "text/event-stream", **told}) as answer:
            if answer.status == 200:
                assert answer.content_type == "text/event-stream"
                assert await asyncio.wait_for(answer.content.readline(), 5) == b": open\n"
            return answer.status


async def test_every_answer_forbids_foreign_scripts_frames_and_guessing(local: Server) -> None:
    for path in ("/launch", "/no-such-page"):
        _, text, headers = await ask(local, path)
        policy = headers["content-security-policy"]
        nonce = re.search(r"'nonce-([\w-]+)'", policy)
        assert nonce is not None
        assert (
            "default-src 'none'" in policy
            and "frame-ancestors 'none'" in policy
            and "script-src 'self' 'nonce-" in policy
        )
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        scripts = re.findall(r"<script[^>]*>", text)
        assert scripts and all(f'nonce="{nonce[1]}"' in script for script in scripts)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert not re.search(r"(?:src|href)=\"https?://", text)


async def test_what_a_proxy_claims_is_not_believed(local: Server) -> None:
    _, text, _ = await ask(
        local, x_forwarded_prefix="/evil", x_forwarded_host="evil.example", x_forwarded_proto="https"
    )
    assert "evil" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/run/..%2f..%2fetc",
        "/run/%2e%2e/skill",
        "/run/..",
        "/run/%2Fetc%2Fpasswd",
        "/run/..%5c..%5cetc/tasks",
        "/run/0123456789abcdef",
        "/run/%00",
        "/run/<script>alert(1)</script>",
        "/../../etc/passwd",
        "/run/0123456789abcdef/report.html",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
        "/pages/..%2f..%2fapp.py",
    ],
)
def test_a_path_that_climbs_out_is_a_sentence_and_no_file(local: Server, path: str) -> None:
    """Over a raw socket, because a client library would tidy the path up first."""
    with socket.create_connection(("127.0.0.1", local.port), timeout=10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1.1 (404|400)", head), head
    assert b"root:x:" not in body and b"<script>alert" not in body


@pytest.mark.parametrize(
    "proposal",
    ["../../etc/passwd", "/etc/passwd", "20260101-000000-00000000/../x", "<script>alert(1)</script>"],
)
async def test_a_proposal_that_climbs_out_is_a_sentence(local: Server, proposal: str) -> None:
    status, text, _ = await ask(local, f"/sleep?proposal={proposal}")
    assert status in (200, 404) and "There is no proposal" in text
    assert "<script>alert" not in text
