"""Blobs: counted, limited, nameless, and whole for whoever reads them."""

import pytest

from enlcn.serve.storage import CHUNK, BlobGoneError, Storage, StorageFullError


def test_bytes_come_back_and_room_is_given_back():
    storage = Storage(10**6)
    blob = storage.blob(b"abc")
    blob.write(b"def")
    assert blob.read() == b"abcdef"
    assert storage.used == 6
    blob.close()
    blob.close()
    assert storage.used == 0
    with pytest.raises(BlobGoneError):
        blob.read()


def test_no_more_than_the_limit():
    storage = Storage(10)
    blob = storage.blob(b"12345678")
    with pytest.raises(StorageFullError):
        blob.write(b"901")
    with pytest.raises(StorageFullError):
        storage.blob(b"123")
    assert storage.used == 8
    blob.close()
    assert storage.blob(b"1234567890").size == 10


def test_a_reader_gets_all_of_a_blob_that_is_closed_meanwhile():
    storage = Storage(10**7)
    data = bytes(range(256)) * (3 * CHUNK // 256)
    blob = storage.blob(data)
    reader = blob.chunks()
    first = next(reader)
    blob.close()
    assert storage.used == len(data)
    assert first + b"".join(reader) == data
    assert storage.used == 0


def test_a_blob_that_is_held_stays_whole_and_counted():
    storage = Storage(10**6)
    blob = storage.blob(b"abc")
    with blob.held():
        blob.close()
        assert blob.read() == b"abc"
        assert storage.used == 3
    assert storage.used == 0
    with pytest.raises(BlobGoneError), blob.held():
        pass


def test_a_reader_that_stops_frees_the_blob():
    storage = Storage(10**7)
    blob = storage.blob(bytes(2 * CHUNK))
    reader = blob.chunks()
    next(reader)
    blob.close()
    reader.close()
    assert storage.used == 0
