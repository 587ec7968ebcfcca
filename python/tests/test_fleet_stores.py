"""Fleets whose files lie in an object store: a server on this machine plays one."""

import pytest
from replicas import FOUR
from test_fleet import ANSWERS

import spanwise as sw

s3fs = pytest.importorskip("s3fs", reason="no s3fs here: s3:// is not tested")
server = pytest.importorskip("moto.server", reason="no moto[server] here: s3:// is not tested")


@pytest.fixture(scope="module")
def store():
    """The options of a store that holds the four ranks under bucket/run/."""
    environment = pytest.MonkeyPatch()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        environment.setenv(name, "nobody")
    environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    try:
        options = {"endpoint_url": "http://127.0.0.1:{1}".format(*running.get_host_and_port())}
        files = s3fs.S3FileSystem(**options)
        files.mkdir("bucket")
        for path in FOUR:
            files.put(str(path), f"bucket/run/{path.name}")
        yield options
    finally:
        running.stop()
        environment.undo()


def rows(fleet, answer):
    """An answer without the names of files."""
    found = getattr(fleet, answer)().to_dicts()
    return [{key: value for key, value in row.items() if key != "file"} for row in found]


def test_answers_are_those_of_files_nearby(store):
    there = sw.fleet("s3://bucket/run/*.json.gz", storage_options=store)
    assert there.files()["file"] == [f"s3://bucket/run/{path.name}" for path in FOUR]
    here = sw.fleet(FOUR)
    for answer in ANSWERS:
        assert rows(there, answer) == rows(here, answer), answer


def test_what_is_not_in_the_store_is_a_row_with_an_error(store):
    names = [f"s3://bucket/run/{name}" for name in (FOUR[0].name, "none.json")]
    fleet = sw.fleet(names, storage_options=store)
    assert fleet.unread == [(names[1], f"{names[1]}: No such file or directory")]
    with pytest.raises(FileNotFoundError, match="no file fits"):
        sw.fleet("s3://bucket/none/*", storage_options=store)


def test_a_dataset_goes_into_the_store(store):
    parquet = pytest.importorskip("pyarrow.parquet")
    fleet = sw.fleet("s3://bucket/run/*", storage_options=store)
    written = fleet.to_parquet("s3://bucket/dataset", tables=["calls", "kernels"])
    files = s3fs.S3FileSystem(**store)
    assert len(written) == 8
    calls = [path for path in written if "/calls/" in path]
    assert sum(parquet.read_table(files.open(p)).num_rows for p in calls) == len(fleet.calls())
