#!/usr/bin/python3
"""performance_test.py PERFORMANCE: writes tables and plots of made-up results, and checks docs/performance.md."""
import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

PERFORMANCE = sys.argv[1]
HOST = {"date": "2026-01-02", "gpus": "2 Some GPU", "processors": 3, "cuda": "13.0", "driver": "1.2", "baseline": "9"}
LOSSES = [{"functions": ["allreduce"], "from": 1 << 20, "why": "it is slower"}]


def row(size, ours, theirs):
    return {"bytes": size, "count": size // 4, "type": "float", "op": "sum",
            "median_us": ours, "min_us": ours, "p90_us": ours, "busbw_gbs": 1, "ratio": theirs / ours, "ratio_least": 0.5, "ratio_most": 2,
            "baseline": {"median_us": theirs, "min_us": theirs, "p90_us": theirs, "busbw_gbs": 1}}


def content(**changes):
    return {"tool": "gpucoll-perf", "collective": "allreduce", "ranks": 2, "api": False, "mpi": "Some MPI", "wrong": 0,
            "baseline_name": "NCCL", "iterations": 20, "warmup": 5, "repeat": 3,
            "places": [{"host": "secret", "device": "Some GPU"}] * 2,
            "results": [row(8, 10, 15), row(1 << 20, 40, 30)], **changes}


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def run(*arguments):
    return subprocess.run([PERFORMANCE, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def expect(status, sentence, *arguments):
    ended = run(*arguments)
    assert ended.returncode == status and sentence in ended.stdout, (arguments, ended.returncode, ended.stdout)


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def writes_tables(folder):
    write(folder, "host.json", HOST)
    write(folder, "losses.json", LOSSES)
    write(folder, "a.json", content())
    write(folder, "b.json", content(collective="bcast", results=[row(8, 7, 14), row(64, 8, 6)]))
    write(folder, "c.json", content(api=True, wrong=3))
    page = write(folder, "page.md", "before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n")
    expect(1, "page.md is not what contrib/performance writes", "--check", "-o", page, folder)
    for _ in range(2):  # the second time nothing changes
        expect(0, "", "-o", page, folder)
        text = read(page)
        assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text, text
        assert "| bytes | allreduce | bcast |\n|---|---|---|\n| 8 | 10.0 (1.50) | 7.0 (2.00) |\n" in text, text
        assert "| 1M | 40.0 (0.75) |  |\n" in text, text
        assert "| MPI, 2 ranks | allreduce | 1M | 40.0 | 30.0 | 0.75 | it is slower |" in text, text
        assert "| MPI, 2 ranks | bcast | 64 | 8.0 | 6.0 | 0.75 | not known yet |" in text, text
        assert "| bcast | 8 |" not in text and "3 wrong elements" in text and "Some MPI, NCCL 9" in text, text
        assert "20 calls after 5, 3 times" in text, text
    expect(0, "", "--check", "-o", page, folder)
    plot = os.path.join(folder, "plots", "c-api-2.svg")
    assert xml.dom.minidom.parse(plot).getElementsByTagName("polyline").length == 3, read(plot)
    write(folder, os.path.join("plots", "c-api-2.svg"), "something else")
    expect(1, "c-api-2.svg is not what contrib/performance writes", "--check", "-o", page, folder)
    expect(2, "has no lines <!-- measured -->", "-o", write(folder, "unmarked.md", "text\n"), folder)


def stores(folder, into):
    expect(0, "", "--store", into, folder)
    stored = json.loads(read(into, "a.json"))
    assert "secret" not in read(into, "a.json") and stored["results"][0]["median_us"] == 10, stored
    assert sorted(os.listdir(into)) == ["a.json", "b.json", "c.json", "host.json"], os.listdir(into)


def main():
    with tempfile.TemporaryDirectory() as folder:
        writes_tables(folder)
        stores(folder, os.path.join(folder, "stored"))
    with tempfile.TemporaryDirectory() as empty:
        expect(2, "holds no results", "-o", write(empty, "page.md", "<!-- measured -->\n<!-- /measured -->\n"), empty)
    expect(0, "", "--check")
    lines = read(os.path.dirname(PERFORMANCE), "..", "docs", "performance.md").count("\n")
    assert lines <= 150, f"docs/performance.md has {lines} lines, more than 150"
    return 0


sys.exit(main())
