#!/usr/bin/env python3
"""Checks PyTorch's collectives, messages, groups, graphs, DDP and FSDP2 on whatever libnccl.so.2 it has loaded, and times all_reduce.

usage: torchrun --nproc-per-node GPUS torch_check.py [--times]     (with-gpucoll in front of it: on gpucoll)
Exits with 1 and names each check that failed, with the rank that saw it. --times prints all_reduce's microseconds a call.
"""
import argparse
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist

COUNTS = (1, 37, 1000, 4097, 300_001)


def pattern(rank, count, dtype=torch.float32):
    """Returns small whole numbers that depend on rank and index, on the device."""
    return ((torch.arange(count, device="cuda") * 7 + rank * 13) % 11).to(dtype)


def expect(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def check_all_reduce(rank, size):
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
    for dtype in kinds:
        for count in COUNTS:
            inputs = torch.stack([pattern(r, count, dtype) for r in range(size)])
            for op, fold in ((dist.ReduceOp.SUM, lambda t: t.sum(0)), (dist.ReduceOp.MAX, lambda t: t.max(0).values),
                             (dist.ReduceOp.MIN, lambda t: t.min(0).values)):
                own = inputs[rank].clone()
                dist.all_reduce(own, op)
                expect(own, fold(inputs).to(dtype))
    own = pattern(rank, 1000)
    dist.all_reduce(own, dist.ReduceOp.AVG)
    torch.testing.assert_close(own, torch.stack([pattern(r, 1000) for r in range(size)]).mean(0))
    own = torch.full((9,), 2.0, device="cuda")
    dist.all_reduce(own, dist.ReduceOp.PRODUCT)
    expect(own, torch.full((9,), 2.0 ** size, device="cuda"))


def check_collectives(rank, size):
    for count in COUNTS:
        everything = torch.stack([pattern(r, count) for r in range(size)])
        for root in range(size):
            own = pattern(rank, count)
            dist.broadcast(own, root)
            expect(own, everything[root])
            own = pattern(rank, count)
            dist.reduce(own, root)
            rank == root and expect(own, everything.sum(0))
        gathered = torch.empty(size * count, device="cuda")
        dist.all_gather_into_tensor(gathered, pattern(rank, count))
        expect(gathered, everything.flatten())
        parts = [torch.empty(count + r, device="cuda") for r in range(size)]
        dist.all_gather(parts, pattern(rank, count + rank))
        for r in range(size):
            expect(parts[r], pattern(r, count + r))
        shard = torch.empty(count, device="cuda")
        dist.reduce_scatter_tensor(shard, pattern(rank, count * size))
        wanted = torch.stack([pattern(r, count * size) for r in range(size)]).sum(0)
        expect(shard, wanted[rank * count:(rank + 1) * count])


def check_exchanges(rank, size):
    for count in COUNTS:
        sent = pattern(rank, count * size)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        expect(received, torch.cat([pattern(r, count * size)[rank * count:(rank + 1) * count] for r in range(size)]))
        outwards = [(rank + 2 * to) % 5 * count for to in range(size)]
        inwards = [(source + 2 * rank) % 5 * count for source in range(size)]
        received = torch.empty(sum(inwards), device="cuda")
        dist.all_to_all_single(received, pattern(rank, sum(outwards)), inwards, outwards)
        wanted = []
        for source in range(size):
            splits = [(source + 2 * to) % 5 * count for to in range(size)]
            begin = sum(splits[:rank])
            wanted.append(pattern(source, sum(splits))[begin:begin + splits[rank]])
        expect(received, torch.cat(wanted))
        parts = [torch.empty(count, device="cuda") for _ in range(size)] if rank == 0 else None
        dist.gather(pattern(rank, count), parts, dst=0)
        rank == 0 and [expect(parts[r], pattern(r, count)) for r in range(size)]
        own = torch.empty(count, device="cuda")
        dist.scatter(own, [pattern(r, count) for r in range(size)] if rank == 0 else None, src=0)
        expect(own, pattern(rank, count))


def check_messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in COUNTS:
        received = torch.empty(count, device="cuda")
        requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, pattern(rank, count), after),
                                           dist.P2POp(dist.irecv, received, before)])
        for request in requests:
            request.wait()
        expect(received, pattern(before, count))
        if rank < 2:
            own = pattern(5, count) if rank == 0 else torch.empty(count, device="cuda")
            dist.send(own, 1) if rank == 0 else dist.recv(own, 0)
            expect(own, pattern(5, count))


def check_groups(rank, size):
    groups = [dist.new_group([r for r in range(size) if r % 2 == half]) for half in (0, 1)] if size > 1 else []
    everyone = dist.new_group(list(range(size)))
    for turn in range(5):
        pending = []
        for half, group in enumerate(groups):
            if rank % 2 == half:
                own = pattern(rank + turn, 5000)
                pending.append((dist.all_reduce(own, group=group, async_op=True), own,
                                sum(pattern(r + turn, 5000) for r in range(half, size, 2))))
        own = pattern(rank + turn, 7000)
        pending.append((dist.all_reduce(own, group=everyone, async_op=True), own, sum(pattern(r + turn, 7000) for r in range(size))))
        for work, own, wanted in pending:
            work.wait()
            expect(own, wanted)
    for group in [*groups, everyone]:
        group and group != dist.GroupMember.NON_GROUP_MEMBER and dist.destroy_process_group(group)


def check_coalesced(rank, size):
    tensors = [pattern(rank + k, 100 * (k + 1)) for k in range(6)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for k, tensor in enumerate(tensors):
        expect(tensor, sum(pattern(r + k, 100 * (k + 1)) for r in range(size)))


def check_graphs(rank, size):
    own, shard = torch.zeros(10_000, device="cuda"), torch.zeros(500, device="cuda")
    wide = torch.zeros(500 * size, device="cuda")

    def step():
        dist.all_reduce(own)
        dist.all_gather_into_tensor(wide, shard)
        own.add_(1)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for turn in range(4):
        own.copy_(pattern(rank + turn, 10_000))
        shard.copy_(pattern(rank * 3 + turn, 500))
        graph.replay()
        torch.cuda.synchronize()
        expect(own, sum(pattern(r + turn, 10_000) for r in range(size)) + 1)
        expect(wide, torch.cat([pattern(r * 3 + turn, 500) for r in range(size)]))


def model_and_data(size):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda().double()
    return model, torch.randn(size * 4, 64, device="cuda", dtype=torch.float64), torch.randn(size * 4, 8, device="cuda", dtype=torch.float64)


def train(model, data, target, steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(data), target).backward()
        optimizer.step()


def check_training(rank, size):
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel
    alone, data, target = model_and_data(size)
    train(alone, data, target)
    own = slice(rank * 4, rank * 4 + 4)
    shared = DistributedDataParallel(model_and_data(size)[0], device_ids=[torch.cuda.current_device()])
    train(shared, data[own], target[own])
    for got, wanted in zip(shared.parameters(), alone.parameters()):
        torch.testing.assert_close(got, wanted)
    sharded = model_and_data(size)[0]
    for layer in sharded:
        isinstance(layer, torch.nn.Linear) and fully_shard(layer)
    fully_shard(sharded)
    train(sharded, data[own], target[own])
    for got, wanted in zip(sharded.parameters(), alone.parameters()):
        torch.testing.assert_close(got.full_tensor(), wanted)


def check_objects(rank, size):
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * (rank + 1)})
    assert everything == [{"rank": r, "text": "x" * (r + 1)} for r in range(size)], everything
    dist.barrier()


def check_threads_of_streams(rank, size):
    """Collectives of one group from several streams, ordered by the program."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    kept = []
    for turn in range(12):
        with torch.cuda.stream(streams[turn % 3]):
            own = pattern(rank + turn, 2000 + turn)
            dist.all_reduce(own)
            kept.append((own, turn))
    torch.cuda.synchronize()
    for own, turn in kept:
        expect(own, sum(pattern(r + turn, 2000 + turn) for r in range(size)))


def check_memory_given_back(rank, size):
    """Gives memory back to the device (cudaFree, which waits for all streams) while large operations are under way."""
    count = 16 << 20
    own, gathered = pattern(rank, count), torch.empty(size * count, device="cuda")
    received = torch.empty(count, device="cuda")
    for turn in range(10):
        spare = torch.empty((turn + 1) << 20, device="cuda")
        torch.cuda.synchronize()
        work = [dist.all_gather_into_tensor(gathered, own, async_op=True)]
        if size > 1:
            work += dist.batch_isend_irecv([dist.P2POp(dist.isend, own, (rank + 1) % size),
                                            dist.P2POp(dist.irecv, received, (rank - 1) % size)])
        del spare
        torch.cuda.empty_cache()
        for each in work:
            each.wait()
        for r in range(size):
            expect(gathered[r * count:(r + 1) * count], pattern(r, count))
        size > 1 and expect(received, pattern((rank - 1) % size, count))
        gathered.zero_()
        received.zero_()


CHECKS = [check_all_reduce, check_collectives, check_exchanges, check_messages, check_groups, check_coalesced, check_graphs,
          check_training, check_objects, check_threads_of_streams,
          check_memory_given_back]


def run_checks(rank, size):
    failed = 0
    for check in CHECKS:
        try:
            check(rank, size)
            torch.cuda.synchronize()
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"rank {rank}: {check.__name__} failed:\n{traceback.format_exc(limit=4)[-1500:]}", flush=True)
            break  # the others wait for this rank
    return failed


def print_times(rank):
    for count in (2, 256, 16384, 262144, 4 << 20, 16 << 20, 64 << 20):
        own = torch.zeros(count, device="cuda")
        for _ in range(3):  # memory is opened to the others between calls that come again
            for _ in range(10):
                dist.all_reduce(own)
            torch.cuda.synchronize()
        calls = 500 if count < 1 << 20 else 50
        began = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(own)
        torch.cuda.synchronize()
        rank == 0 and print(f"all_reduce {count * 4:>10} bytes {(time.perf_counter() - began) / calls * 1e6:10.1f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", action="store_true")
    arguments = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for end in (dist.distributed_c10d._abort_process_group, dist.destroy_process_group):
        # torchrun's own store keeps the keys of the first turn.
        store = dist.FileStore(f"/tmp/torch_check-{os.getppid()}-{end.__name__}", size)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=size,
                                device_id=torch.device("cuda", torch.cuda.current_device()))
        if run_checks(rank, size):
            os._exit(1)
        if arguments.times:
            torch.cuda.synchronize()
            time.sleep(0.5)  # memory that the checks have given back is noticed ten times a second, and closed
            print_times(rank)
        end()
    rank == 0 and print(f"{2 * len(CHECKS)} checks on {size} GPUs: 0 failed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
