"""Files elsewhere: s3:// on an S3 server of this machine, http:// on another; in and out by `dedup`, in by `feed`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import parquet
from s3fs import S3FileSystem

from tests.cli.program import ARTICLE, OTHER, lines, page, refused, run
from tests.cli.test_dedup_keep import TABLE, dedup
from tests.conftest import served

GIVEN = [page(1, text=ARTICLE), page(2, text=ARTICLE), page(3, text=OTHER)]


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3FileSystem]:
    """An empty bucket of this name, found as any other is: by the variables of AWS."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "anyone")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        system = S3FileSystem()
        system.mkdir("bucket")
        system.pipe_file("bucket/in.jsonl.gz", gzip.compress(lines(*GIVEN).encode()))
        yield system
    server.stop()


def test_s3_is_read_and_written(bucket: S3FileSystem, tmp_path: Path) -> None:
    """Lines and Parquet; the verdicts of what was kept; what is not there, or has no place, is named."""
    dedup("s3://bucket/in.jsonl.gz", "--keep", "new", "--output", "s3://bucket/kept.jsonl.gz")
    kept = gzip.decompress(bucket.cat_file("bucket/kept.jsonl.gz")).splitlines()
    assert [json.loads(line) for line in kept] == [GIVEN[0], GIVEN[2]]
    dedup("s3://bucket/kept.jsonl.gz", "--output", "s3://bucket/verdicts")
    verdicts = bucket.cat_file("bucket/verdicts").splitlines()
    assert [json.loads(line)["verdict"] for line in verdicts] == ["new", "new"]
    with bucket.open("bucket/in.parquet", "wb") as stream:
        parquet.write_table(pyarrow.table(TABLE), stream)
    options = ("--text-column", "content", "--keep", "new", "--output", "s3://bucket/kept.parquet")
    dedup("s3://bucket/in.parquet", *options)
    with bucket.open("bucket/kept.parquet") as stream:
        assert parquet.read_table(stream).equals(pyarrow.table(TABLE).take([0, 2]))
    assert "cannot read s3://bucket/none.jsonl: no such file" in refused("dedup", "s3://bucket/none.jsonl")
    for output in ("s3://bucket/in.jsonl.gz", "s3a://bucket/in.jsonl.gz"):
        assert "is an input and the output" in refused("dedup", "s3://bucket/in.jsonl.gz", "--output", output)
    options = ("--keep", "new", "--output", "s3://bucket/new", "--duplicates", "simplecache::s3a://bucket/new")
    assert "are one place" in refused("dedup", "s3://bucket/in.jsonl.gz", *options)
    assert "cannot write s3://none/out" in refused("dedup", "s3://bucket/in.jsonl.gz", "--output", "s3://none/out")


@pytest.mark.usefixtures("bucket", "commands_settings")
def test_s3_is_fed() -> None:
    """Into the topic, like a file of this machine."""
    for arguments in (["topics", "create"], ["feed", "s3://bucket/in.jsonl.gz", "--json"]):
        result = run(*arguments)
    told = json.loads(result.stdout)
    assert told.pop("seconds") > 0
    assert told == {"documents": 3, "damaged": 0, "left_out": {}, "delivered": 3, "failed": 0}


def test_http_is_read_and_not_written(tmp_path: Path) -> None:
    """What is not there is named, and so is a scheme that nobody knows."""
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(lines(*GIVEN).encode()))
    with served(tmp_path) as url:
        dedup(f"{url}/in.jsonl.gz", "--keep", "new", "--output", tmp_path / "kept.jsonl")
        assert f"cannot read {url}/none.jsonl: no such file" in refused("dedup", f"{url}/none.jsonl")
        assert "cannot write http://" in refused("dedup", f"{url}/in.jsonl.gz", "--output", f"{url}/out")
    kept = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [GIVEN[0], GIVEN[2]]
    assert "cannot read nowhere://x" in refused("dedup", "nowhere://x")
