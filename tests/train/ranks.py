"""Runs a function on several ranks: processes forked from a server that has imported torch once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from headrace.train.environment import Place

T = TypeVar("T")

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.train.workers", "torch._dynamo", "pytest"])


def on_ranks(world_size: int, function: Callable[..., T], *args: Any, timeout: float = 100) -> list[T]:
    """What `function(place, *args)` returns on each rank, in rank order; a rank's exception is raised here."""
    port = free_port()
    pipes, processes = [], []
    for rank in range(world_size):
        receiver, sender = SERVER.Pipe(duplex=False)
        process = SERVER.Process(target=_main, args=(sender, rank, world_size, port, function, args))
        process.start()
        sender.close()
        pipes.append(receiver)
        processes.append(process)
    try:
        results = [_receive(pipe, rank, timeout) for rank, pipe in enumerate(pipes)]
    finally:
        for process in processes:
            process.join(5)
            process.kill()
    failures = [text for ok, text in results if not ok]
    assert not failures, "\n".join(failures)
    return [pickle.loads(value) for _, value in results]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _receive(pipe: Connection, rank: int, timeout: float) -> tuple[bool, Any]:
    if not pipe.poll(timeout):
        return False, f"rank {rank} said nothing for {timeout} s"
    try:
        return pipe.recv()  # type: ignore[no-any-return]
    except EOFError:
        return False, f"rank {rank} died"


def _main(
    pipe: Connection, rank: int, size: int, port: int, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    place = Place(rank=rank, local_rank=rank, size=size, launched=True)
    try:
        result = function(place, *args)
        # Plain pickle: torch's own would send tensors as memory shared with a process that is about to end.
        pipe.send((True, pickle.dumps(result)))
    except BaseException:  # noqa: BLE001 - told to the test, which fails with it
        pipe.send((False, f"rank {rank}:\n{traceback.format_exc()}"))
