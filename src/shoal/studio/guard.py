"""Access control of the studio: the token, the host name and the origin of each request."""

from __future__ import annotations

import hmac
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode

TOKEN_COOKIE, WORKSPACE_COOKIE = "shoal_token", "shoal_desk"
WORKSPACE_HEADER = "shoal-desk"
WORKSPACE_NAME = re.compile(r"[A-Za-z0-9_-]{8,64}")
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)
"""Content security policy: pages load nothing from other servers."""
ADDED = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
"""Headers of every response."""


class AccessGuard:
    """Middleware in front of all pages, the JSON API and the web socket.

    A request must name this machine as its host (against DNS rebinding), must not come from another origin, and must
    carry the token: as a cookie, which the printed address sets, or as ``Authorization: Bearer``. Requests that are
    too large are rejected.
    """

    def __init__(self, app: Any, token: str, port: int, most_bytes: int) -> None:
        self._app = app
        self._token = token
        self._most_bytes = most_bytes
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refuse(scope, headers)
        if refused is not None:
            await _respond(scope, send, *refused)
            return
        if scope["type"] == "http" and (wanted := self._entrance(scope)) is not None:
            await _redirect(send, wanted, self._cookies(scope, headers))
            return
        scope["shoal.workspace"] = workspace_name(headers)
        limited = _Limited(receive, self._most_bytes if scope["type"] == "http" else None)
        try:
            await self._app(scope, limited, _with_policy(send, limited))
        except TooLarge:
            await _respond(scope, send, *self._too_large())

    def _too_large(self) -> tuple[int, str]:
        return 413, f"The file is larger than {self._most_bytes:,} bytes: choose a smaller one."

    def _refuse(self, scope: Any, headers: dict[str, str]) -> tuple[int, str] | None:
        if headers.get("host", "") not in self._hosts:
            return 421, "The host name is not the one of the studio: open the address that the studio printed."
        origin = headers.get("origin")
        foreign = origin is not None and origin not in {f"http://{host}" for host in self._hosts}
        if foreign or (headers.get("sec-fetch-site") == "cross-site" and scope.get("method") != "GET"):
            return 403, "The request comes from another site: open the address that the studio printed."
        given = headers.get("authorization", "").removeprefix("Bearer ") or _cookie(headers, TOKEN_COOKIE)
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not any(hmac.compare_digest(one.encode(), self._token.encode()) for one in (given, asked)):
            return 401, "The token is missing: open the address that the studio printed."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._most_bytes:
            return self._too_large()
        return None

    def _entrance(self, scope: Any) -> str | None:
        """Return the redirect target of the printed address, without the token, so that no history keeps it."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if "token" not in query or scope["method"] != "GET":
            return None
        rest = {name: values[0] for name, values in query.items() if name not in ("token", "desk")}
        return scope["path"] + ("?" + urlencode(rest) if rest else "")

    def _cookies(self, scope: Any, headers: dict[str, str]) -> list[str]:
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("desk", [""])[0]
        workspace = asked if WORKSPACE_NAME.fullmatch(asked) else workspace_name(headers) or secrets.token_urlsafe(16)
        kept = {TOKEN_COOKIE: self._token, WORKSPACE_COOKIE: workspace}
        return [f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000" for name, value in kept.items()]


class TooLarge(Exception):  # noqa: N818
    """A request has more bytes than allowed."""


class _Limited:
    """Counts the bytes of a request as they arrive: its header may be wrong or missing."""

    def __init__(self, receive: Any, most: int | None) -> None:
        self._receive, self._most = receive, most
        self._taken = 0

    async def __call__(self) -> Any:
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        self.require_room()
        return message

    def require_room(self) -> None:
        if self._most is not None and self._taken > self._most:
            raise TooLarge


def workspace_name(headers: dict[str, str]) -> str | None:
    """Return the workspace that a request names in its header or cookie."""
    name = headers.get(WORKSPACE_HEADER) or _cookie(headers, WORKSPACE_COOKIE)
    return name if WORKSPACE_NAME.fullmatch(name) else None


def _cookie(headers: dict[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _with_policy(send: Any, limited: _Limited) -> Any:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            # The application may take a request that was cut off for a broken one, and answer to that.
            limited.require_room()
            message["headers"] = [*message.get("headers", []), *ADDED]
        await send(message)

    return sent


async def _respond(scope: Any, send: Any, status: int, sentence: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": sentence})
        return
    body = ('{"detail": "' + sentence.replace('"', "'") + '"}').encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Any, to: str, cookies: list[str]) -> None:
    headers = [(b"location", to.encode("latin-1")), (b"content-length", b"0")]
    headers += [(b"set-cookie", cookie.encode("latin-1")) for cookie in cookies]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
