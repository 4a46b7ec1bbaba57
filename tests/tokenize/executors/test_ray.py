"""Jobs on a cluster of two nodes, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, InputError, MismatchError, MissingExtra, UsageError, WorkerError
from headrace.tokenize.executors.base import Done
from headrace.tokenize.executors.ray import RayExecutor
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.journal import Journal
from headrace.tokenize.software import software
from tests.s3 import S3Server
from tests.tokenize.executors.cluster import RayCluster
from tests.tokenize.executors.tasks import Dying, Gated, some_context, unit
from tests.tokenize.jobs import CommandLine, file_hashes, object_hashes


def executor(out: Path, address: str | None, num_tasks: int) -> RayExecutor:
    context = some_context(out)
    Journal(context.store).begin({"job": "of a test"})
    return RayExecutor(context, num_tasks, workers=None, address=address)


def on(cluster: RayCluster, *more: str) -> list[str]:
    return ["--executor", "ray", "--address", cluster.address, *more]


def run_dying(out: Path, cluster: RayCluster, dies: int) -> list[Any]:
    task = Dying(unit=unit(5), sources={}, attempts=out.parent / "attempts", dies=dies)
    with executor(out, cluster.address, 1) as ray:
        return list(ray.run([task], Stop()))


def test_law_4_two_nodes_give_the_bytes_of_one_process(
    command: CommandLine, finished: Path, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    told = command.run(tmp_path / "out", *on(ray_cluster))
    assert file_hashes(tmp_path / "out") == file_hashes(finished)
    noise = [line for line in told.stderr.splitlines() if not line.startswith(("progress ", "took "))]
    assert not noise, "Ray says nothing of its own"


def test_a_unit_whose_worker_died_is_given_to_another(tmp_path: Path, ray_cluster: RayCluster) -> None:
    ((number, done),) = run_dying(tmp_path / "out", ray_cluster, dies=2)
    assert (number, done.result, len(done.notes)) == (5, 3, 2)
    assert len(set((tmp_path / "attempts").read_text().split())) == 3, "each attempt in a process of its own"


class Impatient(RayExecutor):
    SILENT_SECONDS = 3.0


def test_case_a10_a_worker_that_stands_still_is_given_up_and_its_unit_done_by_another(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    context = some_context(tmp_path / "out")
    Journal(context.store).begin({"job": "of a test"})
    task = Dying(unit=unit(5), sources={}, attempts=tmp_path / "attempts", dies=1, stops=True)
    with Impatient(context, 1, workers=None, address=ray_cluster.address) as ray:
        results = [report for _, report in ray.run([task], Stop()) if isinstance(report, Done)]
    assert [done.result for done in results] == [2]
    assert "does not answer" in results[0].notes[0]
    stopped = int((tmp_path / "attempts").read_text().split()[0])
    deadline = time.monotonic() + 60
    while Path(f"/proc/{stopped}").exists():
        assert time.monotonic() < deadline, "the worker that was given up is still there"
        time.sleep(0.05)


def test_a_unit_that_kills_its_workers_ends_the_run_and_is_named(
    tmp_path: Path, ray_cluster: RayCluster
) -> None:
    with pytest.raises(WorkerError, match=r"unit 5 .* was lost 4 times"):
        run_dying(tmp_path / "out", ray_cluster, dies=99)
    assert len((tmp_path / "attempts").read_text().split()) == RayExecutor.MAX_LOSSES


def test_a_killed_node_costs_its_open_unit_and_no_other(tmp_path: Path, ray_cluster: RayCluster) -> None:
    lost = ray_cluster.add_node()
    gate = tmp_path / "gate"
    tasks = [Gated(unit=unit(n), sources={}, gate=gate) for n in range(3)]
    opened: set[int] = set()
    finished: dict[int, Done] = {}
    with executor(tmp_path / "out", ray_cluster.address, 3) as ray:
        for number, report in ray.run(tasks, Stop()):
            if isinstance(report, Done):
                finished[number] = report
            elif len(opened) < 3:
                opened.add(number)
                if len(opened) == 3:
                    ray_cluster.kill_node(lost)
            if ray._losses:
                gate.touch()
        assert list(ray._losses.values()) == [1]
    assert sorted(finished) == [0, 1, 2]
    (note,) = [note for done in finished.values() for note in done.notes if "was lost" in note]
    assert f"another one did unit {next(iter(ray._losses))}" in note


def finished_shards(out: Path) -> dict[str, int]:
    """The shards of finished units, and when each was written."""
    units = [path.stem for path in (out / "_units").glob("0*.json")]
    return {
        path.name: path.stat().st_mtime_ns for number in units for path in out.glob(f"shard.{number}-*.mds")
    }


def until_some_are_done(process: subprocess.Popen[str], out: Path, count: int) -> dict[str, int]:
    while len(shards := finished_shards(out)) < count:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)
    return shards


def test_law_4_and_6_a_node_killed_in_the_middle_of_a_job_changes_no_byte_and_undoes_no_unit(
    longer: CommandLine, whole: dict[str, str], tmp_path: Path, ray_cluster: RayCluster
) -> None:
    lost = ray_cluster.add_node()
    process = subprocess.Popen(
        longer.arguments(tmp_path / "out", *on(ray_cluster, "--workers", "3", "--json")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    before = until_some_are_done(process, tmp_path / "out", 10)
    ray_cluster.kill_node(lost)
    assert not (tmp_path / "out" / "manifest.json").exists(), "the job was over before its node was"
    outcome, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert json.loads(outcome)["already_complete"] is False, "Ray prints nothing of its own"
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard.*.mds")}
    assert {name: after[name] for name in before} == before
    assert file_hashes(tmp_path / "out") == whole


def test_law_6_a_killed_driver_leaves_no_actor_and_the_same_command_continues(
    longer: CommandLine, whole: dict[str, str], tmp_path: Path, ray_cluster: RayCluster
) -> None:
    process = longer.start(tmp_path / "out", *on(ray_cluster))
    before = until_some_are_done(process, tmp_path / "out", 10)
    assert ray_cluster.workers()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 60
    while ray_cluster.workers():
        assert time.monotonic() < deadline, "actors outlived their driver"
        time.sleep(0.05)
    longer.run(tmp_path / "out")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("shard.*.mds")}
    assert {name: after[name] for name in before} == before
    assert file_hashes(tmp_path / "out") == whole


def test_sigterm_ends_at_once_with_its_own_code(
    longer: CommandLine, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    process = longer.start(tmp_path / "out", *on(ray_cluster))
    until_some_are_done(process, tmp_path / "out", 5)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "SIGTERM" not in said, "Ray would print a stack"
    assert not [name for name in file_hashes(tmp_path / "out") if ".tmp-" in name]


def test_ctrl_c_once_finishes_the_open_units_and_leaves_no_actor(
    longer: CommandLine, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    out = tmp_path / "out"
    process = longer.start(out, *on(ray_cluster))
    until_some_are_done(process, out, 5)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "open unit" in said
    assert "Traceback" not in said
    assert not (out / "manifest.json").exists()
    recorded = {name[:12] for name in finished_shards(out)}
    assert {path.name[:12] for path in out.glob("shard.*")} == recorded, "no unit was broken off"


def refused(out: Path, address: str | None, kind: type[HeadraceError], words: str) -> None:
    with pytest.raises(kind, match=words), executor(out, address, 1) as ray:
        list(ray.run([Gated(unit=unit(0), sources={}, gate=out)], Stop()))


def test_a_node_with_other_versions_is_refused_by_name(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {**software(), "pyarrow": "1.0"}
    monkeypatch.setattr("headrace.tokenize.executors.ray.software", lambda: there)
    refused(tmp_path, ray_cluster.address, MismatchError, r"node \d.*pyarrow \S+ instead of 1\.0")


def test_a_node_that_does_not_share_the_storage_is_refused_by_name(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers read the journal themselves; here it is the driver that sees another one under the same name."""
    monkeypatch.setattr(RayExecutor, "VISIBLE_SECONDS", 0.5)
    monkeypatch.setattr(Journal, "job", lambda _: {"job": "in another directory under the same name"})
    refused(tmp_path, ray_cluster.address, UsageError, r"node \d.*does not see the job")


def test_ray_is_an_extra_and_its_absence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    refused(tmp_path, None, MissingExtra, r"pip install 'headrace\[ray\]'")


def test_an_address_of_another_kind_is_refused(tmp_path: Path) -> None:
    refused(
        tmp_path,
        "ray://user:secret@head:10001",
        UsageError,
        r"--address ray://head:10001: expected HOST:PORT",
    )


def test_an_address_at_which_nothing_answers_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "127.0.0.1:1", InputError, "no Ray cluster answers there")


@pytest.mark.s3
def test_law_4_on_s3_through_nodes_that_have_the_credentials_of_which_ray_keeps_nothing(
    command: CommandLine, finished: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    cluster = RayCluster(1)  # its nodes are started with the variables that open the store
    try:
        command.run(f"{s3_bucket}/dataset", *on(cluster))
        kept = [path for path in cluster.scratch.rglob("*") if path.is_file()]
        assert len(kept) > 10
        assert not [path for path in kept if s3_server.secret_key.encode() in path.read_bytes()]
    finally:
        cluster.close()
    assert object_hashes(s3_server, f"{s3_bucket}/dataset") == file_hashes(finished)
