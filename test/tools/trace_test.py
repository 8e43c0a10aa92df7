#!/usr/bin/python3
"""trace_test.py REPORT LATE MPIRUN...: records ranks of which the last comes late to calls 5 and 10, and looks at what
contrib/trace-report tells of them. Skipped (77) where matplotlib is missing, for the picture alone."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

REPORT, LATE, *MPIRUN = sys.argv[1:]
RANKS = 3
HALF_MS = 500  # the last rank is twice as late; on a busy machine, the others are late as well


def command(*words, fails=False, **environment):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                          env=dict(os.environ, **environment))
    assert (done.returncode != 0) == fails, f"{words} has ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def record(work, name, *arguments, fails=False):
    path = os.path.join(work, name)
    command(*MPIRUN, "-np", str(RANKS), "--mca", "coll", "gpucoll", "--mca", "coll_gpucoll_trace", path, LATE,
            *arguments, fails=fails)
    return path


def rows_after(heading, output):
    lines = output.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[at + 2:]:
        if not line:
            break
        rows.append(re.split(r"  +", line))
    return rows


def check_tables(output):
    late = rows_after("calls to which a rank came late", output)
    named = {(call, who) for call, who, by in late if float(by) > HALF_MS}
    wanted = {(f"MPI_Allreduce {n}", "rank 2") for n in (5, 10)}
    assert wanted <= named, f"late are {named}, without some of {wanted}:\n{output}"  # a busy machine makes others late
    waits = {(who, whom): (float(total), float(longest))
             for who, whom, _, total, longest in rows_after("who waited for whom", output)}
    for rank in ("rank 0", "rank 1"):
        total, longest = waits[rank, "rank 2"]
        assert 2 * HALF_MS < total and HALF_MS < longest < total, f"{rank} waited {total} ms for rank 2:\n{output}"


def check_messages(output):
    rows = {(who, what, int(peer)): (name, int(n), int(size), int(staged)) for who, what, peer, name, n, size, staged, *_
            in rows_after("messages of device memory", output)}
    for rank in range(RANKS):
        for what, peer in (("send", (rank + 1) % RANKS), ("receive", (rank + RANKS - 1) % RANKS)):
            assert rows[f"rank {rank}", what, peer] == ("MPI_COMM_WORLD", 1, 16, 0), output


def check_json(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    for event in events:
        assert event["ph"] in "XMbei" and {"name", "pid", "tid"} <= event.keys(), event
        assert event["ph"] == "M" or event["ts"] >= 0, event
        assert event["ph"] != "X" or event["dur"] >= 0, event
    for rank in range(RANKS):
        own = [event for event in events if event["pid"] == rank]
        calls = [event for event in own if event["name"] == "MPI_Allreduce"]
        assert [call["args"]["number"] for call in calls] == list(range(1, 16)), calls
        for call in calls:
            assert call["args"]["way"] == "on the device" and call["args"]["bytes"] == 16, call
            within = {e["name"] for e in own if e["ph"] == "X" and e["tid"] == call["tid"] and e is not call
                      and call["ts"] <= e["ts"] <= call["ts"] + call["dur"]}
            assert {"launch", "on the device"} <= within, f"{call} has {within}"
            made, number = "plan" in within, call["args"]["number"]
            assert made if number == 1 else not made or number < 4, f"{call} has {within}; later plans are kept"
        message, = (event["args"] for event in own if event["name"] == f"receive, rank {(rank + 2) % RANKS}" and event["ph"] == "b")
        assert (message["tag"], message["bytes"], message["way"]) == (7, 16, "on the device"), message
        assert ("connect" in {event["name"] for event in own}) and "MPI_Ibcast" in {event["name"] for event in own}
        begun, ended = ([event["id"] for event in own if event["ph"] == ph] for ph in "be")
        assert begun == ended and begun, own
    long = [event for event in events if event["name"] == "wait for rank 2" and event["dur"] > HALF_MS * 1000]
    assert all(sum(event["pid"] == rank for event in long) >= 2 for rank in (0, 1)), long
    late = {event["args"]["call"] for event in events if event["ph"] == "i" and event["pid"] == 2}
    assert {"MPI_Allreduce 5", "MPI_Allreduce 10"} <= late, late


def check_dead(work):
    """The others have noted for whom they wait, and the dead one all it did."""
    output = command(REPORT, record(work, "dead", "--die", "10", fails=True))
    assert re.search(r"MPI_Allreduce 10 has not ended: rank 0, rank 1 waited for rank 2, which never came, or has "
                     r"host memory there", output), output
    assert re.search(r"^rank 2 +\S+ +9 ", output, re.MULTILINE), output
    output = command(REPORT, record(work, "dead_waiting", "--die", "17", fails=True))
    wanted = "rank 2: a receive from rank 0 of MPI_COMM_WORLD, tag 9, 16 bytes, has not ended"
    assert wanted in output.split("\n"), output
    output = command(REPORT, record(work, "dead_later", "--die", "16", fails=True))
    assert re.search(r"MPI_Ibcast 1 has not ended: rank 0, rank 1 waited for rank 2, which never came", output), output


def write_trace(path, rank, boot, offset, calls, way=1, name=b"world", more=b"",
                label=b"MPI_Allreduce"):
    """A file as a process on a machine whose time of day is `offset` ns ahead would write it."""
    texts = b"\0%s\0group\t7\t%d\t2\t%s\0%s" % (label, rank, name, more)
    names = b"call\nrequest\n"
    header = struct.pack("<8s 4Q 2Q 4q q 2i 64s 64s 128s 1024s", b"GCTRACE1", 4096, 1 << 18, 64, 16, len(calls),
                         len(texts), offset, 0, 0, 0, 100 + rank, rank, 2, b"host", boot, b"job", names)
    records = b"".join(struct.pack("<Q 2q 3Q 2H 2I i", i + 1, begin, end - begin, 7, i + 1, 8, 0, way, 1, 1, -1)
                       for i, (begin, end) in enumerate(calls))
    with open(path, "wb") as file:
        file.write(header.ljust(4096, b"\0") + texts.ljust(1 << 18, b"\0") + records)


def check_machines(work):
    """Rank 1 comes 5 ms late; its machine's time of day is 3 ms wrong, which would show it in time."""
    first, second = (os.path.join(work, f"machines.host.{rank}") for rank in (1, 2))
    # On one clock: rank 0 calls at 10 and at 30 ms, rank 1 at 15 and at 30 ms; each call ends 0.1 ms after the last.
    write_trace(first, 0, b"a", 0, [(10_000_000, 15_100_000), (30_000_000, 30_100_000)])
    write_trace(second, 1, b"b", -3_000_000, [(15_000_000, 15_100_000), (30_000_000, 30_100_000)])
    output = command(REPORT, os.path.join(work, "machines"))
    assert "the clocks of 1 machines are corrected" in output, output
    (call, who, by), = rows_after("calls to which a rank came late", output)
    assert (call, who) == ("MPI_Allreduce 1", "rank 1") and 4.8 < float(by) < 5.2, output


def check_no_bound(work):
    """Calls in which a rank may go on before all have come say nothing about the clocks."""
    for name, arguments in (("staged", {"way": 2}), ("sides", {"more": b"two sides\t7\0"})):
        for rank, boot in enumerate((b"a", b"b")):  # each call of rank 0 ends before rank 1 comes
            write_trace(os.path.join(work, f"{name}.host.{rank}"), rank, boot, 0,
                        [(10_000_000 + rank * 5_000_000, 11_000_000 + rank * 5_000_000)], **arguments)
        output = command(REPORT, os.path.join(work, name))
        assert "corrected" not in output, f"{name}: {output}"


def check_staged(work):
    """A staged call's record ends before its ranks have waited for each other; two processes may have one rank."""
    timeline = os.path.join(work, "waited.json")
    for rank in (0, 1):
        write_trace(os.path.join(work, f"waited.host.{rank}"), 0, b"a", 0,
                    [(10_000_000 + rank * 5_000_000, 20_000_000)], way=2)
    output = command(REPORT, os.path.join(work, "waited"), "--json", timeline)
    assert "who waited for whom" not in output and "by, ms" in output, output
    with open(timeline) as file:
        events = json.load(file)["traceEvents"]
    assert len({event["pid"] for event in events}) == 2, events


def check_starts(work):
    """Starts of one persistent request cannot be told from each other, and so are not compared."""
    for rank in (0, 1):
        write_trace(os.path.join(work, f"starts.host.{rank}"), rank, b"a", 0,
                    [(10_000_000 + rank * 5_000_000, 20_000_000)], label=b"MPI_Allreduce_init")
    output = command(REPORT, os.path.join(work, "starts"))
    assert "by, ms" not in output, output


def check_left_out(work):
    """Files without content are left out, and names may have tabs."""
    for rank in (1, 2):
        write_trace(os.path.join(work, f"some.host.{rank}"), rank - 1, b"a", 0, [(10_000_000, 11_000_000)],
                    name=b"a\tname", more=b"thread\t1\tmy\tthread\0thread\tnone\0")
    empty, timeline = os.path.join(work, "some.host.3"), os.path.join(work, "some.json")
    with open(empty, "wb") as file:
        file.write(bytes(100))
    output = command(REPORT, os.path.join(work, "some"), "--json", timeline)
    assert re.search(r"some\.host\.3 is left out: ", output) and re.search(r"^rank 1 ", output, re.MULTILINE), output
    with open(timeline) as file:
        events = json.load(file)["traceEvents"]
    assert {event["args"]["communicator"] for event in events if event["name"] == "MPI_Allreduce"} == {"a\tname"}, events
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == {"my\tthread"}, events
    assert "is no trace of gpucoll" in command(REPORT, empty, fails=True)
    os.rename(empty, os.path.join(work, "alone.host.3"))
    assert "there is no trace left" in command(REPORT, os.path.join(work, "alone"), fails=True)


def check_refusals(work):
    assert "there is neither" in command(REPORT, os.path.join(work, "nothing"), fails=True)
    other = os.path.join(work, "other")
    with open(other, "w") as file:
        file.write("a text\n" * 1000)
    assert "is no trace of gpucoll" in command(REPORT, other, fails=True)
    unwritable = command(*MPIRUN, "-np", "2", "--mca", "coll", "gpucoll", LATE,
                         GPUCOLL_TRACE=os.path.join(work, "missing/trace"))
    assert unwritable.count("records no trace: it cannot write") == 2, unwritable
    assert "late: 30 checks, 0 failures" in unwritable, unwritable


def main():
    with tempfile.TemporaryDirectory() as work:
        trace, timeline, picture = (os.path.join(work, name) for name in ("trace", "timeline.json", "picture.png"))
        late = ("--late", str(2 * HALF_MS))
        record(work, "trace", *late)
        output = command(REPORT, trace, "--json", timeline, "--late", str(1000 * HALF_MS))
        check_tables(output)
        check_messages(output)
        check_json(timeline)
        check_dead(work)
        check_machines(work)
        check_no_bound(work)
        check_staged(work)
        check_starts(work)
        check_left_out(work)
        check_refusals(work)
        # A later job under the same name: the earlier one's files are left out.
        record(work, "trace", *late)
        output = command(REPORT, trace)
        assert "3 files are of other jobs than the newest, and left out" in output, output
        check_tables(output)
        drawn = subprocess.run([REPORT, trace, "--png", picture], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
        if "matplotlib is missing" in drawn.stdout:
            print("skipped: matplotlib is missing")
            sys.exit(77)
        assert drawn.returncode == 0, drawn.stdout
        with open(picture, "rb") as file:
            content = file.read(24)
        width, height = struct.unpack(">II", content[16:24])
        assert content[:8] == b"\x89PNG\r\n\x1a\n" and width > 800 and height > 200, (width, height)


main()
