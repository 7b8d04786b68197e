"""All-reduces between two GPUs by PyTorch's NCCL backend, and copies between them, beside bench/teams.R.

    NCCL_NVLS_ENABLE=0 python3 bench/teams.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def member(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    wait = torch.cuda.synchronize

    def say(text):
        if rank == 0:
            print(text, flush=True)

    for n in (1, 200, 2000):
        x = torch.zeros(n, dtype=torch.float64, device="cuda")
        best = {}
        for kind in ("waiting each time", "queued"):
            for _ in range(10):
                dist.barrier()
                wait()
                at = time.perf_counter()
                for _ in range(500):
                    dist.all_reduce(x)
                    if kind != "queued":
                        wait()
                wait()
                best[kind] = min(best.get(kind, 1), (time.perf_counter() - at) / 500)
        say(f"torch all-reduce of {n} doubles: {1e6 * best['waiting each time']:.1f} us, queued {1e6 * best['queued']:.1f} us")
    for size_bytes in (2**20, 2**26, 2**30):
        x = torch.ones(size_bytes // 4, dtype=torch.float32, device="cuda")
        best = 1e9
        for _ in range(8):
            dist.barrier()
            wait()
            at = time.perf_counter()
            for _ in range(5):
                dist.all_reduce(x)
            wait()
            best = min(best, (time.perf_counter() - at) / 5)
        say(f"torch all-reduce of {size_bytes >> 20} MiB: {2 * (size - 1) / size * size_bytes / best / 1e9:.1f} GB/s of bus")
    dist.barrier()
    if rank == 0:
        a = torch.ones(100_000_000, dtype=torch.float64, device="cuda:0")
        b = torch.empty_like(a, device="cuda:1")
        best = 1e9
        for _ in range(10):
            torch.cuda.synchronize(0)
            torch.cuda.synchronize(1)
            at = time.perf_counter()
            b.copy_(a)
            torch.cuda.synchronize(1)
            torch.cuda.synchronize(0)
            best = min(best, time.perf_counter() - at)
        say(f"torch copy of 800 MB between the cards: {1e3 * best:.3f} ms")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(member, args=(2,), nprocs=2)
