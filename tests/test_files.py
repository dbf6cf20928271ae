"""A file is there whole or not at all."""

import hashlib

import pytest

from tfdiff.files import sha256, write_text, written_whole


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "report.json"
    write_text(path, "old ü")

    def write_half() -> None:
        with written_whole(path) as partial:
            partial.write_text("half")
            assert partial.suffix == path.suffix
            assert path.read_text(encoding="utf-8") == "old ü"
            raise RuntimeError("power")

    with pytest.raises(RuntimeError, match="power"):
        write_half()
    assert path.read_text(encoding="utf-8") == "old ü"
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_is_of_the_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert sha256(path) == hashlib.sha256(b"abc").hexdigest()
