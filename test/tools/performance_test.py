#!/usr/bin/python3
"""performance_test.py PERFORMANCE: writes tables of made-up results. Skipped (77) where matplotlib is missing."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

PERFORMANCE = sys.argv[1]
HOST = {"date": "2026-01-02", "gpus": "2 Some GPU", "processors": 3, "cuda": "13.0", "driver": "1.2"}


def row(size, ours, theirs):
    return {"bytes": size, "count": size // 4, "type": "float", "op": "sum",
            "median_us": ours, "min_us": ours, "p90_us": ours, "busbw_gbs": 1, "ratio": theirs / ours, "ratio_least": 0.5, "ratio_most": 2,
            "baseline": {"median_us": theirs, "min_us": theirs, "p90_us": theirs, "busbw_gbs": 1}}


def content(**changes):
    return {"tool": "gpucoll-perf", "collective": "allreduce", "ranks": 2, "api": False, "mpi": "Some MPI", "wrong": 0,
            "baseline_name": "NCCL 9", "places": [{"device": "Some GPU"}] * 2,
            "results": [row(8, 10, 15), row(1 << 20, 40, 30)], **changes}


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def run(folder, page):
    return subprocess.run([PERFORMANCE, "-o", page, folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    if importlib.util.find_spec("matplotlib") is None:
        print("skipped: matplotlib is missing")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "host.json", HOST)
        write(folder, "a.json", content())
        write(folder, "b.json", content(collective="bcast", results=[row(8, 7, 14)]))
        write(folder, "c.json", content(api=True, wrong=3))
        page = write(folder, "page.md", "before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
        for _ in range(2):  # the second time nothing changes
            ended = run(folder, page)
            assert ended.returncode == 0, ended.stdout
            with open(page) as file:
                text = file.read()
            assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text, text
            assert "| bytes | allreduce | bcast |\n|---|---|---|\n| 8 | 10.0 (1.50) | 7.0 (2.00) |\n" in text, text
            assert "| 1M | 40.0 (0.75) |  |\n" in text, text
            assert "| MPI, 2 ranks | allreduce | 1M | 40.0 | 30.0 | 0.75 (0.50 to 2.00) |" in text, text
            assert "| bcast | 8 |" not in text and "3 wrong elements" in text and "Some MPI, NCCL 9" in text, text
            assert os.path.exists(os.path.join(folder, "plots", "allreduce-c-api-2.svg"))
        unmarked = run(folder, write(folder, "unmarked.md", "text\n"))
        assert unmarked.returncode == 2 and "has no lines <!-- measured -->" in unmarked.stdout, unmarked.stdout
    with tempfile.TemporaryDirectory() as empty:
        nothing = run(empty, page)
        assert nothing.returncode == 2 and "holds no results" in nothing.stdout, nothing.stdout
    return 0


sys.exit(main())
