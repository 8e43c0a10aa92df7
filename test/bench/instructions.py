#!/usr/bin/python3
"""Counts the host's instructions of one small call of each kind, by callgrind on the emulated device, and compares
them with those recorded in instructions.txt.

usage: instructions.py BUILD PLUGIN_PATH [--record]
  exit status 0: none above the bound, 1: some are, or it could not count

Counted is what rank 0 of two does, from the call until it returns: by the C API (api_) inside our two libraries and the C
and C++ libraries below them, by MPI in ours alone, as MPI calls the others, too. Not counted: MPI's own libraries,
waiting for other ranks and for the kernel, and what stands for the GPU and its driver.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(SOURCE, "instructions.txt")
# A figure may grow by this much before it fails: the arrival of others makes for some.
FACTOR, SLACK = 1.15, 20
# Waiting for the kernel, with all that is done meanwhile; and for other ranks.
WAIT = "gpucoll::core::Communicator::wait"
WAITS = re.compile(r"gpucoll::coll::(CallMatcher|BoardEntries|LaunchNumbers|RankFailures|ArrivalWatch)::|^call_progress$")
EMULATED = re.compile(r"gpucoll::gpu::emu::")
OURS = re.compile(r"/(libgpucoll[^/]*|mca_coll_gpucoll)\.so")
OURS_OR_BELOW = re.compile(r"/(libgpucoll[^/]*|mca_coll_gpucoll|libc|libm|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so")


def require_waits(build):
    """Under other names they would be counted."""
    library = os.path.join(build, ".libs/libgpucoll.so")
    symbols = subprocess.run(["nm", "-C", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    if f" {WAIT}(" not in symbols or not WAITS.search(symbols):
        sys.exit(f"instructions.py: {library} has no {WAIT} or CallMatcher: where does it wait now?")


def profile(build, plugins, work):
    """Runs the calls; returns their names and numbers, in the order of the dumps."""
    calls = os.path.join(build, "test/bench/calls")
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(work, "out"),
                "--compress-strings=no", "--compress-pos=no", "--collect-atstart=no",
                "--toggle-collect=gc_bench_call", "--toggle-collect=gc_bench_message", f"--toggle-collect={WAIT}(*",
                "--zero-before=gc_bench_begin", "--dump-before=gc_bench_end"]
    require_waits(build)
    environment = dict(os.environ, GPUCOLL_DEVICE="emu", OMPI_MCA_mca_base_component_path=plugins,
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none")
    run = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "coll", "gpucoll",
                          "-np", "1", *valgrind, calls, ":", "-np", "1", calls],
                         env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        sys.exit(run.stdout + "instructions.py: the calls failed")
    return re.findall(r"^(\w+) (\d+)$", run.stdout, re.MULTILINE)


def read_costs(path):
    """Instructions by (object, function), each function's own and what it spends in those of the emulated device."""
    own, emulated = collections.Counter(), collections.Counter()
    library = function = callee = None
    after_calls = False
    with open(path) as dump:
        for line in dump:
            line = line.rstrip("\n")
            if line.startswith("ob="):
                library = line[3:]
            elif line.startswith("fn="):
                function = line[3:]
            elif line.startswith("cfn=") or line.startswith("cfni="):
                callee = line.split("=", 1)[1]
            elif line.startswith("calls="):
                after_calls = True
            elif re.match(r"[+*-]?\d", line) or line.startswith("*"):
                cost = int(line.split()[1]) if len(line.split()) > 1 else 0
                if not after_calls:
                    own[library, function] += cost
                elif EMULATED.search(callee or "") and not EMULATED.search(function):
                    emulated[callee] += cost
                after_calls = False
    return own, emulated


def count(path, name, calls):
    """Of one call."""
    own, emulated = read_costs(path)
    if name.startswith("api_"):
        total = sum(n for (library, _), n in own.items() if OURS_OR_BELOW.search(library or "")) - sum(emulated.values())
    else:
        total = sum(n for (library, function), n in own.items()
                    if OURS.search(library or "") and not EMULATED.search(function) and not WAITS.search(function))
    return round(total / calls)


def recorded():
    with open(RECORD) as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {name: int(figure) for name, figure in lines}


def record(figures):
    with open(RECORD, "w") as file:
        file.write("# Instructions of one small call on rank 0 of 2: instructions.py --record writes this file.\n")
        file.writelines(f"{name} {figure}\n" for name, figure in figures.items())


def main():
    arguments = [a for a in sys.argv[1:] if a != "--record"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    if not shutil.which("valgrind"):
        sys.exit("instructions.py: valgrind is missing: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as work:
        cases = profile(*arguments, work)
        figures = {name: count(os.path.join(work, f"out.{i + 1}"), name, int(calls))
                   for i, (name, calls) in enumerate(cases)}
    if not figures or 0 in figures.values():
        sys.exit("instructions.py: some calls did not come to our libraries: is the component in the plugin path?")
    if "--record" in sys.argv:
        record(figures)
    sys.exit(0 if compare(figures, recorded()) else 1)


def compare(figures, known):
    """Prints the table; whether all are within the bound."""
    within = True
    print(f"{'call':28} {'now':>7} {'recorded':>9} {'ratio':>6}")
    for name, figure in figures.items():
        was = known.get(name, 0)
        over = figure > was * FACTOR + SLACK
        within = within and not over
        ratio = f"{figure / was:6.2f}" if was else "     -"
        print(f"{name:28} {figure:7} {was or '-':>9} {ratio}{'  above the bound' if over else ''}")
    missing = set(known) - set(figures)
    if missing:
        print("recorded, but not counted:", *sorted(missing))
    return within and not missing


if __name__ == "__main__":
    main()
