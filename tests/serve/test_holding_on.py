"""What a server must let go of: memory of failed jobs, room of failed writes, the cost of jobs that were cancelled."""

import threading
import time
from queue import Queue

import pytest
import torch

from enlcn.ops import attention_rows
from enlcn.ops.features import log_features
from enlcn.serve.config import ServeConfig
from enlcn.serve.fair_queue import FairQueue
from enlcn.serve.guard import _netloc
from enlcn.serve.jobs import Job, State
from enlcn.serve.problems import Problem
from enlcn.serve.storage import Storage, StorageFullError
from enlcn.serve.studio import Studio


class FailingWork:
    cost = 1.0

    def __call__(self, toolbox, watch):
        raise Problem("damaged-image", "it ends early")

    def discard(self):
        pass


def test_a_failed_job_holds_no_frames():
    studio = Studio(ServeConfig())
    job = Job("client", FailingWork(), {})
    studio._jobs[job.id] = job
    studio.run(job, None)
    assert job.state == State.failed
    assert job.problem.detail == "it ends early"
    assert job.problem.__traceback__ is None
    assert job.problem.__context__ is None
    with pytest.raises(Problem):
        raise job.problem.fresh()
    assert job.problem.__traceback__ is None


def test_memory_is_given_back_once_while_there_is_no_work(monkeypatch):
    monkeypatch.setattr("enlcn.serve.studio._IDLE_SECONDS", 0.01)
    studio, told, taken = Studio(ServeConfig()), [], Queue()

    def take(times):
        for _ in range(times):
            taken.put(studio.next_job(lambda: told.append(True)))

    def submit():
        with studio.reserve("client") as place:
            return place.submit(FailingWork(), {})

    jobs = [submit(), submit()]
    worker = threading.Thread(target=take, args=(3,))
    worker.start()
    assert [taken.get(timeout=60) for _ in range(2)] == jobs
    while not told:
        time.sleep(0.001)
    time.sleep(0.05)
    jobs.append(submit())
    worker.join()
    assert taken.get() == jobs[2]
    assert len(told) == 1
    studio.drain()
    take(1)
    assert taken.get() is None
    assert len(told) == 1


def test_a_full_disk_gives_its_room_back():
    storage = Storage(1000)
    blob = storage.blob()

    class FullDisk:
        closed = False

        def write(self, data):
            raise OSError(28, "No space left on device")

        def close(self):
            self.closed = True

    blob._file.close()
    blob._file = FullDisk()
    with pytest.raises(StorageFullError):
        blob.write(b"x" * 400)
    blob.close()
    assert storage.used == 0


def test_cancelled_items_cost_their_client_nothing():
    queue = FairQueue()
    large = [f"a{number}" for number in range(5)]
    for item in large:
        queue.put("a", item, cost=10)
    for number in range(3):
        queue.put("b", f"b{number}", cost=1)
    for item in large:
        assert queue.remove(item)
    queue.put("a", "again", cost=1)
    assert [queue.take() for _ in range(4)] == ["b0", "again", "b1", "b2"]


def test_what_can_never_fit_costs_nobody_a_result():
    studio = Studio(ServeConfig(stored_bytes=10_000_000, max_upload_bytes=1_000_000))
    job = Job("client", FailingWork(), {})
    studio._jobs[job.id] = job
    studio.run(job, None)
    studio.storage.take(9_000_000)
    studio.make_room(20_000_000)
    assert job.id in studio._jobs
    studio.make_room(5_000_000)
    assert job.id not in studio._jobs


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", ""])
def test_origins_that_are_none(origin):
    assert _netloc(origin) in (None, "")


def test_allowed_hosts_are_compared_without_case():
    assert "studio.example" in ServeConfig(allowed_hosts=("Studio.Example",)).host_names


def test_features_row_in_chunks_is_the_row(monkeypatch):
    torch.manual_seed(0)
    q, k, proj = torch.randn(50, 8), torch.randn(50, 8), torch.randn(32, 8)
    monkeypatch.setattr(attention_rows, "_CHUNK_FEATURES", 7 * 32)
    row = attention_rows.features_row(q, k, 3, proj)
    phi_q, phi_k = log_features(q[3:4], proj).double().exp(), log_features(k, proj).double().exp()
    expected = (phi_q * phi_k).sum(-1)
    torch.testing.assert_close(row.double(), expected / expected.sum(), rtol=1e-4, atol=1e-7)
