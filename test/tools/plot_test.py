#!/usr/bin/python3
"""plot_test.py PLOT: draws made-up results and looks at the pictures. Skipped (77) where matplotlib is missing."""
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

PLOT = sys.argv[1]


def results(scale):
    rows = []
    for size, time_us in ((1 << 10, 10), (1 << 20, 100), (1 << 30, 1000)):
        row = {"bytes": size, "count": size // 4, "type": "float", "op": "sum", "median_us": time_us * scale,
               "min_us": time_us * scale * 0.9, "p90_us": time_us * scale * 1.1, "busbw_gbs": time_us / 10}
        row["runs_us"] = [row["min_us"], row["median_us"], row["p90_us"]]
        row["baseline"] = dict(row, median_us=row["median_us"] * 2)
        rows.append(row)
    return rows


def content(scale=1, **changes):
    return {"tool": "gpucoll-perf", "collective": "allreduce", "ranks": 4, "api": False, "baseline_name": "NCCL",
            "places": [{"device": "Some GPU"}] * 4, "results": results(scale), **changes}


def plot(*arguments):
    return subprocess.run([PLOT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def points(svg, gid):
    """The corners of the curve with this gid."""
    group = re.search(r'<g id="' + re.escape(gid) + r'">\s*<path d="([^"]*)"', svg)
    assert group, f"no curve {gid}"
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([0-9.]+) ([0-9.]+)", group.group(1))]


def expect_even(values, what):
    first, second = values[1] - values[0], values[2] - values[1]
    assert abs(first) > 10 and abs(first - second) < 0.1, f"{what} are not even: {values}"


def check_pictures(work):
    paths = [os.path.join(work, name) for name in ("before.json", "after.json")]
    for path, scale in zip(paths, (1, 2)):
        with open(path, "w") as file:
            json.dump(content(scale), file)
    run = plot("-o", os.path.join(work, "both"), *paths)
    assert run.returncode == 0, run.stdout
    with open(os.path.join(work, "both.svg")) as file:
        svg = file.read()
    for side in ("gpucoll, MPI", "NCCL"):
        for name in ("before", "after"):
            curve = points(svg, f"time: allreduce, 4 ranks: {side} ({name})")
            assert len(curve) == 3, curve
            expect_even([x for x, _ in curve], "sizes by factors of 1024")
            expect_even([y for _, y in curve], "times by factors of 10")
            assert len(points(svg, f"busbw: allreduce, 4 ranks: {side} ({name})")) == 3
    assert "on Some GPU" in svg and "1M" in svg and "GB/s" in svg
    with open(os.path.join(work, "both.png"), "rb") as file:
        header = file.read(24)
    assert header[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", header[16:20])[0] > 1000, header


def check_mistakes(work):
    path = os.path.join(work, "bad.json")
    for text in ("{", "[]", '{"tool": "another"}', json.dumps(content(results=[]))):
        with open(path, "w") as file:
            file.write(text)
        run = plot("-o", os.path.join(work, "bad"), path)
        assert run.returncode == 2 and run.stdout.startswith("contrib/plot: "), (text, run)
    assert plot("-o", os.path.join(work, "bad"), os.path.join(work, "none.json")).returncode == 2
    assert not os.path.exists(os.path.join(work, "bad.svg"))


if importlib.util.find_spec("matplotlib") is None:
    print("skipped: matplotlib is missing: apt-get install python3-matplotlib")
    sys.exit(77)
with tempfile.TemporaryDirectory() as work:
    check_pictures(work)
    check_mistakes(work)
