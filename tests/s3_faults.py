"""A proxy before an S3 server that does to some requests what networks and busy stores do.

Requests go on as they came, Host included, so that signatures hold. Which of them meet a fault is drawn from a seed, by
method and path; how many did is counted by kind. `serve` runs it in a thread until the block ends.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

from tests.s3 import S3Server

SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
)
DRIBBLE_S = 0.3
KINDS = (
    "503",  # an answer SlowDown; the server sees nothing
    "reset",  # the connection is reset; the server sees nothing
    "cut",  # the answer breaks off in its middle
    "half",  # the answer is half as long as it should be, and says so
    "slow",  # the answer comes in drops
    "lost",  # the server does what it is asked, and its answer is lost
    "flip",  # one bit of the answer's body is another
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A share of the requests that match, at most `count` of them, meets one of the faults."""

    faults: Sequence[str] = KINDS
    share: float = 0.1
    method: str = "GET|HEAD|PUT|POST|DELETE"
    path: str = ""
    count: int = 1 << 30


@dataclass
class Faults:
    """The rules, changeable while it runs, and what they did. `before` is called with each request's method and path."""

    rules: list[Rule] = field(default_factory=list)
    seed: int = 0
    before: Callable[[str, str, dict[str, str]], None] | None = None
    gone: bool = False  # every connection is refused, as by a store that went away
    met: Counter[str] = field(default_factory=Counter)
    requests: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def of(self, method: str, path: str) -> str | None:
        self.requests += 1
        for rule in self.rules:
            if not re.fullmatch(rule.method, method) or not re.search(rule.path, path):
                continue
            if self.met[f"rule {id(rule)}"] >= rule.count or self.draw.random() >= rule.share:
                continue
            # Only what can befall this request: an answer without a body cannot be cut.
            fits = {"GET": {"503", "reset", "cut", "half", "slow", "flip"}, "HEAD": {"503", "reset"}}
            kinds = [kind for kind in rule.faults if kind in fits.get(method, {"503", "reset", "lost"})]
            if kinds:
                self.met[f"rule {id(rule)}"] += 1
                fault = self.draw.choice(kinds)
                self.met[fault] += 1
                return fault
        return None


@dataclass(frozen=True)
class _Message:
    first: bytes
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def encoded(self, body: bytes | None = None, length: int | None = None) -> bytes:
        sent = self.body if body is None else body
        skipped = ("connection", "expect", "content-length", "transfer-encoding")
        lines = [f"{key}: {value}" for key, value in self.headers if key.lower() not in skipped]
        lines += [f"Content-Length: {len(sent) if length is None else length}", "Connection: close"]
        return self.first + b"\r\n" + "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + sent


async def _read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, *, head: bool
) -> _Message | None:
    """A request (`writer` is whom to tell to go on with its body) or an answer; None where the other side is done."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = raw[:-4].split(b"\r\n")
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    found = _Message(first, [(key, value.strip()) for key, _, value in pairs], b"")
    if writer is None and first.split()[1] == b"100":
        return await _read(reader, None, head=head)
    if writer is not None and (found.header("expect") or "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = found.header("content-length")
    body = b""
    if (found.header("transfer-encoding") or "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    elif length is not None and not head:
        body = await reader.readexactly(int(length))
    elif writer is None and not head and first.split()[1] not in (b"204", b"304"):
        body = await reader.read()
    return replace(found, body=body)


class _Proxy:
    def __init__(self, upstream: str, faults: Faults) -> None:
        parts = urlsplit(upstream)
        self.host, self.port = parts.hostname, parts.port
        self.faults = faults

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = None if self.faults.gone else await _read(reader, writer, head=False)
            if request is not None:
                await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: _Message, writer: asyncio.StreamWriter) -> None:
        method, target, _ = request.first.decode().split(" ")
        fault = self.faults.of(method, target)
        if fault == "503":
            writer.write(
                _Message(b"HTTP/1.1 503 Slow Down", [], SLOW_DOWN).encoded(b"" if method == "HEAD" else None)
            )
            return
        if fault == "reset":
            _reset(writer)
            return
        if self.faults.before is not None:
            headers = {key.lower(): value for key, value in request.headers}
            path = unquote(target.partition("?")[0])
            await asyncio.to_thread(self.faults.before, method, path, headers)
        up_reader, up_writer = await asyncio.open_connection(self.host, self.port, limit=1 << 20)
        up_writer.write(request.encoded())
        answer = await _read(up_reader, None, head=method == "HEAD")
        up_writer.close()
        if answer is None or fault == "lost":
            _reset(writer)
            return
        if method == "HEAD":
            writer.write(answer.encoded(b"", int(answer.header("content-length") or 0)))
            return
        await self._send(answer, fault, writer)

    async def _send(self, answer: _Message, fault: str | None, writer: asyncio.StreamWriter) -> None:
        body, half = answer.body, answer.body[: len(answer.body) // 2]
        if fault == "cut" and body:
            writer.write(answer.encoded(half, len(body)))
            await writer.drain()
        elif fault == "half":
            writer.write(answer.encoded(half))
        elif fault == "flip" and body:
            at = self.faults.draw.randrange(8 * len(body))
            changed = bytearray(body)
            changed[at // 8] ^= 1 << at % 8
            writer.write(answer.encoded(bytes(changed)))
        elif fault == "slow":
            writer.write(answer.encoded(b"", len(body)))
            step = len(body) // 10 + 1
            for begin in range(0, len(body), step):
                await asyncio.sleep(DRIBBLE_S / 10)
                writer.write(body[begin : begin + step])
                await writer.drain()
        else:
            writer.write(answer.encoded())
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes with RST."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def serve(server: S3Server, faults: Faults) -> Iterator[S3Server]:
    """`server` behind the proxy: give its `environment` to whoever is to meet the faults."""
    loop = asyncio.new_event_loop()
    proxy = _Proxy(server.endpoint, faults)

    async def start() -> asyncio.Server:
        return await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 20)

    async def stop() -> None:
        listening.close()
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_forever, name="s3-faults", daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield replace(server, endpoint=f"http://127.0.0.1:{port}")
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
