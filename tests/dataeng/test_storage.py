import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from headrace.dataeng import remote
from headrace.dataeng.remote import PROBE, Remote
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.storage import Store, redact, write_whole
from headrace.errors import InputError, UsageError


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Every promise of a store is held by a local directory and by a real S3 server."""
    if request.param == "local":
        return Store(tmp_path / "root")
    return Store(request.getfixturevalue("s3_bucket") + "/root")


def test_what_is_written_is_read_back(store: Store) -> None:
    store.write("a/b.bin", b"one")
    store.write("a/b.bin", b"second")
    assert store.read("a/b.bin") == b"second"
    assert store.exists("a/b.bin")
    assert not store.exists("a")
    with store.open("a/b.bin") as file:
        file.seek(3)
        assert file.read(2) == b"on"


def test_absent_names_raise_file_not_found(store: Store, tmp_path: Path) -> None:
    store.write("x", b"")
    assert not store.exists("y")
    with pytest.raises(FileNotFoundError):
        store.read("y")
    with pytest.raises(FileNotFoundError):
        store.download("y", tmp_path / "copy")
    store.remove("y")


def test_of_several_writers_that_create_the_first_one_stays(store: Store) -> None:
    assert store.create("a/job", b"0")
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda n: store.create("a/race", b"%d" % n), range(16)))
    assert created.count(True) == 1
    assert not store.create("a/job", b"1")
    assert store.create("a/job", b"0")
    assert store.read("a/job") == b"0"
    first = store.read("a/race")
    store.create("a/race", b"late")
    assert store.read("a/race") == first
    assert store.list() == ["a/job", "a/race"]
    store.write("a/job", b"replaced")
    assert store.read("a/job") == b"replaced"


def test_of_several_writers_that_replace_one_thing_at_most_one_does(store: Store) -> None:
    store.write("head", b"0")
    assert not store.replace("head", b"2", expected=b"1")
    assert store.replace("head", b"1", expected=b"0")
    if store.is_local:  # where the directory's lock decides among several
        return
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda n: store.replace("head", b"new %d" % n, expected=b"1"), range(16)))
    assert done.count(True) == 1
    assert store.read("head") == b"new %d" % done.index(True)


def test_names_are_listed_sorted_and_removed(store: Store) -> None:
    for name in ("b/2", "a", "b/1", "bb"):
        store.write(name, b"x")
    assert store.list() == ["a", "b/1", "b/2", "bb"]
    assert store.list("b") == ["b/1", "b/2"]
    store.remove("b/1")
    assert store.list("b") == ["b/2"]


def test_files_are_downloaded(store: Store, tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    store.write("big.bin", data)
    store.download("big.bin", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data


def test_a_store_survives_pickling(store: Store) -> None:
    store.write("x", b"y")
    assert pickle.loads(pickle.dumps(store)).read("x") == b"y"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "", ".hidden"])
def test_names_cannot_leave_the_root(store: Store, name: str) -> None:
    for call in (store.read, store.exists, store.remove, lambda n: store.write(n, b"x")):
        with pytest.raises(InputError, match="plain file name"):
            call(name)


def test_law_6_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "f"
    write_whole(target, b"old")
    with pytest.raises(TypeError):
        write_whole(target, "not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_law_6_what_a_killed_writer_left_is_not_listed_and_is_cleaned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("a/f", b"x")
    (tmp_path / "a" / ".tmp-0123-f").write_bytes(b"half")
    assert store.list() == ["a/f"]
    store.clean_temporaries()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["f"]


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://key:secret@bucket/path?token=secret#secret", "s3://bucket/path"),
        ("https://user:secret@host:1/a/b?sig=secret", "https://host:1/a/b"),
        ("/plain/path", "/plain/path"),
        ("relative?x", "relative?x"),
        ("simplecache::s3://key:secret@bucket/x", "simplecache::s3://bucket/x"),
        ("zip://a.parquet::https://u:secret@h/x.zip?secret", "zip://a.parquet::https://h/x.zip"),
        ("https://h/x?sig=sec::secret", "https://h/x"),
        ("s3://bucket", "s3://bucket"),
    ],
)
def test_no_secret_of_a_uri_is_shown(uri: str, shown: str) -> None:
    assert redact(uri) == shown
    if uri == shown:
        Store(uri)
        return
    with pytest.raises(InputError, match="credentials in the environment") as refused:
        Store(uri)
    assert "secret" not in str(refused.value)


def test_an_unreachable_store_is_named_without_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECRET")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "verysecret")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(remote, "PATIENCE_S", 0.0)
    with pytest.raises(InputError, match=r"s3://bucket/manifest\.json") as caught:
        Store("s3://bucket").read("manifest.json")
    text = str(caught.value)
    assert "SECRET" not in text
    assert "verysecret" not in text
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("scheme", "advice"), [("s3", r"headrace\[s3\]"), ("gs", "gcsfs"), ("abfs", "adlfs")]
)
def test_a_client_that_is_not_installed_is_named(
    scheme: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("s3fs", "gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(import_module("fsspec.registry")._registry, scheme, raising=False)
    for read in (Store(f"{scheme}://bucket").read, lambda name: open_input(f"{scheme}://bucket/{name}")):
        with pytest.raises(UsageError, match=advice):
            read("y")


def test_missing_credentials_are_not_told_as_an_answer_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentialsError(Exception):
        """As botocore calls it."""

    class Client:
        def info(self, _: str) -> dict[str, int]:
            raise NoCredentialsError

    store = Store("s3://bucket")
    monkeypatch.setattr(store, "_client", Remote(Client()))
    with pytest.raises(InputError, match="no credentials were found"):
        store.read("x")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError, match="no file system"):
        Store("gopher://x").read("y")


def test_other_runs_that_clean_up_during_the_probe_do_not_make_a_store_seem_unconditional(
    s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = Remote.create
    probes: list[str] = []

    def create_and_be_cleaned(remote: Remote, path: str, name: str, data: bytes) -> bool:
        done = created(remote, path, name, data)
        if path.endswith(PROBE) and len(probes) < 6:  # three probings of two creations
            probes.append(path)
            remote.remove(path, name)
        return done

    monkeypatch.setattr(Remote, "create", create_and_be_cleaned)
    store = Store(f"{s3_bucket}/root")
    assert store.create("f", b"x")
    assert len(probes) == 6
    assert [name for name in store.list() if PROBE in name] == []
