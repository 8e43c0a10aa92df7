#!/usr/bin/python3
"""nvtx_test.py LATE MPIRUN...: runs ranks with GC_NVTX_TOOL, a tool that NVTX loads, with and without a trace, and looks at the
ranges that it is shown. Skipped (77) where gpucoll was built without NVTX's header: there is no tool."""
import glob
import os
import re
import subprocess
import sys
import tempfile

TOOL = os.environ["GC_NVTX_TOOL"]
LATE, *MPIRUN = sys.argv[1:]
RANKS = 2


def run(work, name, *arguments, **environment):
    log = os.path.join(work, name)
    done = subprocess.run([*MPIRUN, "-np", str(RANKS), "--mca", "coll", "gpucoll", *arguments, LATE],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                          env=dict(os.environ, GC_NVTX_LOG=log, NVTX_INJECTION64_PATH=TOOL, **environment))
    assert done.returncode == 0 and "0 failures" in done.stdout, done.stdout
    logs = sorted(glob.glob(log + ".*"))
    assert len(logs) == RANKS, f"{logs}: of {RANKS} processes"
    return [open(path).read().split("\n")[:-1] for path in logs]


def ranges_of(lines):
    """Returns each range as (depth, name, payload), and what was marked; fails where they do not nest."""
    stacks, ranges, open_ranges, marks = {}, [], set(), []
    for line in lines:
        thread, what, *rest = line.split(" ", 2)
        rest = rest[0] if rest else ""
        stack = stacks.setdefault(thread, [])
        if what == "push":
            payload, text = rest.split(" ", 1)
            ranges.append((len(stack), text, int(payload)))
            stack.append(text)
        elif what == "pop":
            assert stack, f"{line}: nothing has begun"
            stack.pop()
        elif what == "start":
            number, payload, text = rest.split(" ", 2)
            open_ranges.add(number)
            ranges.append((-1, text, int(payload)))
        elif what == "end":
            open_ranges.remove(rest)
        elif what == "mark":
            marks.append(rest)
    left = {thread: stack for thread, stack in stacks.items() if stack}
    assert not left and not open_ranges, f"without an end: {left}, {open_ranges}"
    return ranges, marks


def check_on_device(processes):
    for lines in processes:
        assert any(re.fullmatch(r"\d+ category \d+ launch", line) for line in lines), lines[:20]
        ranges, _ = ranges_of(lines)
        assert [payload for depth, name, payload in ranges if name == "MPI_Allreduce" and depth == 0] == [16] * 15, ranges
        assert [payload for depth, name, payload in ranges if name == "MPI_Ibcast" and depth == -1] == [16], ranges
        inside = {name for depth, name, _ in ranges if depth > 0}
        assert {"connect", "plan", "launch", "on the device"} <= inside, inside
    names = {name for lines in processes for _, name, _ in ranges_of(lines)[0]}
    assert any(re.fullmatch(r"wait for rank [01]", name) for name in names), names


def check_staged(processes):
    for lines in processes:
        ranges, marks = ranges_of(lines)
        assert any(name == "copy through the host" and payload == 16 for _, name, payload in ranges), ranges
        assert any(mark.startswith("not the fast way: ") for mark in marks), marks


def main():
    if not TOOL:
        print("skipped: gpucoll was built without NVTX's header")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        check_on_device(run(work, "alone"))
        trace = os.path.join(work, "trace")
        check_on_device(run(work, "beside", GPUCOLL_TRACE=trace))
        assert len(glob.glob(trace + ".*")) == RANKS
        check_staged(run(work, "staged", GPUCOLL_EMU_EXCLUSIVE="1", GPUCOLL_EMU_DEVICES="1",
                     GPUCOLL_SHARED_GPU="off"))


main()
