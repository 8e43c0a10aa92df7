#!/usr/bin/env python3
"""Kills, stops and continues ranks at random points, and looks at what the others make of it.

usage: faults.py BUILD [--rounds N] [--seed S] ... (see --help)

Each round is one communicator of 2 to 4 processes that call collectives for ever. One of them, the victim, is killed
(SIGKILL), stopped (SIGSTOP), or stopped and continued (SIGCONT) after some time. Of each survivor it is expected that

- its sentence names the victim and nobody else (as "rank 1 (process 4711)"; who tells it says "rank 0");
- the error comes, and the process has ended, within the parameter timeout and a second, plus --slack for machines with
  more to do than processors;
- it ends by itself, and leaves nothing behind: no descriptor after its communicator, no process, nothing in /dev/shm.

--faults cut (C API, between nodes) cuts one of the victim's connections instead: then all ranks are to end with an error.

A victim that is continued after the others have given up gets an error as well, and ends. One that is continued earlier
does no harm: either all go on, or all end with an error that names it.

A rank that a busy machine stops for longer than the timeout looks like the victim. So a round whose only complaints may
come of that (wrong names, late, and invalid, where nobody was hurt yet) is repeated at the end, once and alone. The output
says so.

With --nodes 2,3, the ranks of a round are on 2 or 3 nodes (at most as many as there are ranks), which this machine plays
(parameter host_id) and which reach each other by sockets alone. How many ranks each node has is random.

A round's seed says all that is random about it: `--seed S --rounds 1` repeats round S alone. 60 rounds are what CI runs;
1,000 and real devices (--device cuda) are for a person: see CONTRIBUTING.md.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MODES = {"C": ["blocking", "nonblocking", "groups", "graphs", "meeting", "connecting", "shared"],
         "MPI": ["blocking", "nonblocking", "persistent", "connecting", "shared"]}
MPI_FORMS = ["blocking", "nonblocking", "persistent"]
FAULTS = ["kill", "stop", "continue"]
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "continue": signal.SIGSTOP, "cut": signal.SIGUSR1}
AS_NODES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../mpi/as_nodes.sh")
START_PATIENCE = 60.0  # for processes to start, and to make their communicator
HANG = 15.0  # after the bound: who has not ended by then never will


def now():
    return time.monotonic()  # the clock of the workers' diaries


def wait_until(condition, seconds):
    """Whether the condition has become true within so many seconds."""
    end = now() + seconds
    while not condition():
        if now() > end:
            return False
        time.sleep(0.002)
    return True


class Rank:
    """One worker, as its files tell."""

    def __init__(self, folder, number):
        self.number = number
        self.diary = os.path.join(folder, f"rank.{number}")
        self.calls_file = os.path.join(folder, f"calls.{number}")
        self.stderr = os.path.join(folder, f"err.{number}")
        self.pid = None
        self.process = None  # where the driver is its parent
        self.gone_at = None

    def lines(self):
        """What has happened, as (seconds, word, rest)."""
        try:
            with open(self.diary, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            return []
        found = []
        for line in text[: text.rfind("\n") + 1].splitlines():
            stamp, word, *rest = line.split(" ", 2)
            found.append((int(stamp) / 1e9, word, rest[0] if rest else ""))
        return found

    def find(self, word):
        return next(((when, rest) for when, its, rest in self.lines() if its == word), None)

    def has(self, word):
        return self.find(word) is not None

    def calls(self):
        try:
            with open(self.calls_file, "rb") as file:
                return int.from_bytes(file.read(8), sys.byteorder)
        except FileNotFoundError:
            return 0

    def errors(self):
        """The sentences of its errors that went to stderr."""
        try:
            with open(self.stderr, encoding="utf-8", errors="replace") as file:
                return re.findall(r"^gpucoll \[[^\]]*\] error: (.*)$", file.read(), re.MULTILINE)
        except FileNotFoundError:
            return []

    def learn_pid(self):
        if found := self.find("process"):
            self.pid = int(found[1])
        return self.pid is not None

    def gone(self):
        """Whether its process has ended, and then since when (gone_at)."""
        if self.gone_at is None and self.looks_gone():
            self.gone_at = now()
        return self.gone_at is not None

    def looks_gone(self):
        if self.process is not None:
            return self.process.poll() is not None
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True

    def send(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def answers_latecomers(rank):
    """Whether its process, which has made the id, keeps sockets for some seconds, as a rank that is awaited in vain may
    still come."""
    error = rank.find("error")
    return bool(error) and "did not come within" in error[1]


def named_by(sentence, teller, maker):
    """The ranks that a sentence is about: those with their process, or else all but who tells it. The maker of the id is
    known by its process alone until its rank has come."""
    if re.match(rf"process {maker.pid}( on host \S+)?, which made the unique id,", sentence):
        return {maker.number}
    with_process = re.findall(r"rank (\d+) \(process \d+(?: (?:on host|at) [^)]*)?\)", sentence)
    return {int(r) for r in with_process} or {int(r) for r in re.findall(r"ranks? (\d+)", sentence)} - {teller}


class Result:
    """What one round has shown."""

    def __init__(self, round_):
        self.round = round_
        self.times = []  # from the fault to the error, of each survivor
        self.survivors = self.hangs = self.signals = self.wrong_names = self.late = self.left = self.went_on = 0
        self.invalid = 0
        self.complaints = []

    def is_doubtful(self):
        """Returns whether all that is wrong may come of a machine that has stopped a survivor."""
        return bool(self.complaints) and not (self.hangs or self.signals or self.left)

    def complain(self, kind, text):
        setattr(self, kind, getattr(self, kind) + 1)
        self.complaints.append(f"{kind.replace('_', ' ')}: {text}")


class Round:
    """One communicator and what befalls it."""

    def __init__(self, options, api, seed):
        self.options, self.api, self.seed = options, api, seed
        pick = random.Random(seed)
        # In turn, so that each number of rounds has all of them.
        modes = [mode for mode in MODES[api] if not options.modes or mode in options.modes]
        turn = seed if options.api else seed // 3 if api == "MPI" else seed - seed // 3
        self.mode = modes[turn % len(modes)]
        self.fault = options.faults[(turn // len(modes)) % len(options.faults)]
        self.form = MPI_FORMS[pick.randrange(3)] if self.mode in ("connecting", "shared") else self.mode
        self.n = options.ranks or (4 if self.mode == "shared" and api == "MPI" else pick.choice([2, 3, 3, 4]))
        self.victim = pick.randrange(self.n)
        early = self.mode in ("meeting", "connecting")
        self.delay = pick.uniform(0, 0.05 if self.mode == "meeting" else 0.15 if early else 0.4)
        self.pause = pick.uniform(0.1, options.timeout + 0.8)
        self.devices = pick.choice([1, 2])
        self.nodes = self.some_nodes(pick, min(pick.choice(options.nodes), self.n))
        self.begin_at = "meets" if early else "runs"
        if self.mode == "meeting":
            self.begin_at = "process"
        self.folder = tempfile.mkdtemp(prefix="gpucoll-faults-")
        self.ranks = [Rank(self.folder, r) for r in range(self.n)]
        self.bound = options.timeout + 1 + options.slack
        self.mpirun = None

    def some_nodes(self, pick, n_nodes):
        """A letter for each rank, of its node."""
        letters = "abcd"[:n_nodes]
        nodes = list(letters) + [pick.choice(letters) for _ in range(self.n - n_nodes)]
        pick.shuffle(nodes)
        return "".join(nodes)

    def has_nodes(self):
        return "b" in self.nodes

    def name(self):
        where = f" on nodes {self.nodes}" if self.has_nodes() else ""
        return (f"{self.api} seed {self.seed}: {self.mode}{'' if self.form == self.mode else '/' + self.form}, "
                f"{self.fault} rank {self.victim} of {self.n}{where}")

    # ---- processes ----

    def environment(self, rank=None):
        environment = dict(os.environ, GPUCOLL_DEVICE=self.options.device, GPUCOLL_TIMEOUT=str(self.options.timeout))
        for name, value in self.options.mpi_environment.items():
            environment.setdefault(name, value)
        if self.mode == "shared" and self.options.device == "emu":
            environment["GPUCOLL_EMU_DEVICES"] = str(self.devices)
            if self.api == "MPI":
                environment["GPUCOLL_EMU_EXCLUSIVE"] = "1"
        elif self.mode == "shared":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(d) for d in range(self.devices))
        if rank and self.has_nodes():
            environment["GPUCOLL_HOST_ID"] = self.nodes[rank.number]
        return environment

    def start(self):
        worker_seed = str(self.seed % 2**31)
        if self.api == "MPI":
            as_nodes = [AS_NODES, self.nodes] if self.has_nodes() else []
            command = [self.options.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "coll", "gpucoll", "-np",
                       str(self.n), "--enable-recovery", *as_nodes,
                       os.path.join(self.options.build, "test/faults/mpi_worker"), self.folder, self.form, worker_seed]
            with open(os.path.join(self.folder, "mpirun"), "wb") as log:
                self.mpirun = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=log,
                                               stderr=log)
            return
        for rank in self.ranks:
            command = [os.path.join(self.options.build, "test/faults/api_worker"), self.folder, str(rank.number),
                       str(self.n), self.mode, self.fault, worker_seed]
            with open(rank.stderr, "wb") as log:
                rank.process = subprocess.Popen(command, env=self.environment(rank), stdin=subprocess.DEVNULL, stdout=log,
                                                stderr=log)

    def kill_all(self):
        for rank in self.ranks:
            if rank.learn_pid():
                rank.send(signal.SIGKILL)
            if rank.process is not None:
                rank.process.kill()
                rank.process.wait()
        if self.mpirun is not None:
            try:
                self.mpirun.wait(5)
            except subprocess.TimeoutExpired:
                self.mpirun.kill()
                self.mpirun.wait()

    # ---- the round ----

    def run(self):
        result = Result(self)
        try:
            self.start()
            if wait_until(self.has_begun, START_PATIENCE):
                self.strike(result)
            else:
                result.complain("invalid", "the ranks did not start")
        finally:
            self.kill_all()
            if result.complaints and self.options.keep:
                result.complaints.append(f"files: {self.folder}")
            else:
                shutil.rmtree(self.folder, ignore_errors=True)
        return result

    def has_begun(self):
        # Without an id, no rank is in gpucoll yet: nobody could tell those that wait for it.
        has_id = self.mode != "meeting" or os.path.exists(os.path.join(self.folder, "id"))
        return has_id and all(r.has(self.begin_at) and r.learn_pid() for r in self.ranks)

    def strike(self, result):
        victim = self.ranks[self.victim]
        survivors = [r for r in self.ranks if r is not victim]
        time.sleep(self.delay)
        if any(r.has("error") or r.gone() for r in self.ranks):
            return result.complain("invalid", "a rank failed before anything befell it")
        began = now()
        victim.send(SIGNALS[self.fault])
        if self.fault == "cut":
            survivors = self.ranks
            time.sleep(0.1)
            if os.path.exists(os.path.join(self.folder, "uncut")):
                result.went_on += 1
                return None
        if self.fault == "continue":
            time.sleep(self.pause)
            victim.send(signal.SIGCONT)
            if self.goes_on(began):
                if any(self.is_left_to_mpi(rank) for rank in self.ranks):
                    result.complain("wrong_names", "a rank that was stopped takes others for unreachable")
                result.went_on += 1
                result.survivors += len(survivors)
                return None
            survivors = self.ranks  # the victim is to end like them
        # A survivor's own part only: the bound is the same for all.
        wait_until(lambda: all([r.gone() for r in survivors]), began + self.bound + HANG - now())
        for rank in survivors:
            self.judge(rank, began, result)
        if self.fault == "stop":
            continued = now()
            victim.send(signal.SIGCONT)
            wait_until(victim.gone, 1 + self.options.slack + HANG)
            self.judge_victim(victim, continued, result)
        return None

    def goes_on(self, began):
        """Whether a pause has been without consequences."""
        end = max(began + self.bound, now() + 1)
        while now() < end:
            if any(r.has("error") or r.gone() for r in self.ranks):
                return False
            time.sleep(0.01)
        before = [r.calls() for r in self.ranks]
        return wait_until(lambda: all(r.calls() > b for r, b in zip(self.ranks, before)), 5 + self.options.slack)

    # ---- what is expected ----

    def sentences(self, rank):
        return rank.errors() if self.api == "MPI" else [rank.find("error")[1].split(" ", 1)[1]]

    def judge(self, rank, began, result):
        result.survivors += 1
        error = rank.find("error")
        if error is None or not rank.gone():
            self.judge_unended(rank, error, result)
            return
        taken = error[0] - began
        if rank.number != self.victim:
            result.times.append(taken)
        sentences = self.sentences(rank)
        if not sentences:
            result.complain("wrong_names", f"rank {rank.number} says nothing")
        for sentence in sentences:
            if not self.names_who_is_to_be(sentence, rank):
                result.complain("wrong_names", f"rank {rank.number}: {sentence}")
                break
        if taken > self.bound:
            result.complain("late", f"rank {rank.number} says after {taken:.2f} s: {sentences[:1]}")
        elif rank.gone_at - began > self.bound and not answers_latecomers(rank):
            result.complain("late", f"rank {rank.number} ends after {rank.gone_at - began:.2f} s")
        self.judge_end(rank, result)

    def names_who_is_to_be(self, sentence, rank):
        """A connection has two ends, and the ranks at them may each take the other one for dead."""
        named = named_by(sentence, rank.number, self.ranks[0])
        if self.fault == "cut":
            return bool(named)
        return rank.number == self.victim or named == {self.victim}

    def judge_unended(self, rank, error, result):
        if rank.gone():
            status = rank.process.returncode if rank.process else "unknown"
            return result.complain("signals", f"rank {rank.number} ended with {status} and no error")
        said = f"and has said '{error[1]}'" if error else "without an error"
        return result.complain("hangs", f"rank {rank.number} does not end {said}")

    def judge_end(self, rank, result):
        if rank.process is not None and rank.process.returncode:
            result.complain("signals", f"rank {rank.number} ended with {rank.process.returncode}")
        elif not rank.has("ends"):
            result.complain("signals", f"rank {rank.number} ended in the middle")
        left = rank.find("left")
        if self.fault == "kill" and left and left[1] and not answers_latecomers(rank):
            result.complain("left", f"rank {rank.number} keeps {left[1]}")

    def is_left_to_mpi(self, rank):
        """Whether a rank has found that others cannot be reached, when these have gone: MPI's own collectives, which it
        calls then, wait for those for ever."""
        if self.api != "MPI" or not os.path.exists(rank.stderr):
            return False
        with open(rank.stderr, encoding="utf-8", errors="replace") as file:
            return "goes through the host" in file.read()

    def judge_victim(self, victim, continued, result):
        error = victim.find("error")
        if self.is_left_to_mpi(victim):
            return
        if error is None or not victim.gone():
            self.judge_unended(victim, error, result)
            return
        taken = victim.gone_at - continued
        if taken > 1 + self.options.slack:
            result.complain("late", f"rank {victim.number}, the victim, ends {taken:.2f} s after it was continued")
        self.judge_end(victim, result)


# ---- all rounds ----

def shared_memory():
    return {name for name in os.listdir("/dev/shm") if "gpucoll" in name}


def adopt_orphans():
    """Processes that outlive their parents become this one's children, and are found at the end."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def orphans():
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == os.getpid():
                with open(f"/proc/{name}/comm", encoding="utf-8", errors="replace") as file:
                    if "worker" in (comm := file.read()):
                        found.append(f"{name} {comm.strip()}")
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def table(results, by):
    """The figures of each group of rounds."""
    rows = [["", "rounds", "survivors", "went on", "error after min", "median", "max", "hangs", "signals",
             "wrong names", "late", "left"]]
    groups = collections.defaultdict(list)
    for result in results:
        groups[by(result.round)].append(result)
    for name, group in groups.items():
        times = sorted(t for result in group for t in result.times)
        figures = [f"{f(times):.2f} s" if times else "-" for f in (min, statistics.median, max)]

        def total(kind, group=group):
            return str(sum(getattr(result, kind) for result in group))

        rows.append([name, str(len(group)), total("survivors"), total("went_on"), *figures, total("hangs"),
                     total("signals"), total("wrong_names"), total("late"), total("left")])
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(w) if c else cell.ljust(w) for c, (cell, w) in enumerate(zip(row, widths))))


def mpi_environment(build):
    """What lets mpirun find the component of the build tree: ctest sets it, a person need not."""
    with open(os.path.join(build, "CTestTestfile.cmake"), encoding="utf-8") as file:
        plugins = re.search(r'set\(GC_PLUGIN_PATH "(.*)"\)', file.read())[1]
    return {"OMPI_MCA_mca_base_component_path": plugins, "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
            "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", help="the build tree")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, help="of the first round; the next ones follow it")
    parser.add_argument("--api", choices=["C", "MPI"], help="only rounds of this API; else a third of them is of MPI")
    parser.add_argument("--modes", type=lambda text: text.split(","), help="only these, as far as an API has them")
    parser.add_argument("--faults", type=lambda text: text.split(","), default=FAULTS, help="only these of kill,stop,continue,cut")
    parser.add_argument("--ranks", type=int, help="in each round; else 2 to 4")
    parser.add_argument("--nodes", type=lambda text: [int(n) for n in text.split(",")], default=[1],
                        help="how many nodes this machine plays: one of these numbers in each round")
    parser.add_argument("--timeout", type=int, default=2, help="the parameter timeout, seconds")
    parser.add_argument("--slack", type=float, default=0, help="seconds more, where the machine has more to do")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at a time")
    parser.add_argument("--device", default="emu", help="emu or cuda")
    parser.add_argument("--keep", action="store_true", help="keep the files of rounds that complain")
    parser.add_argument("--verbose", action="store_true", help="a table by mode and fault, too")
    options = parser.parse_args()
    if "cut" in options.faults and (options.api != "C" or 1 in options.nodes):
        parser.error("cut needs --api C and --nodes: MPI ends with its own connections")
    unknown = set(options.modes or []) - set(MODES["C"] + MODES["MPI"])
    if unknown:
        parser.error(f"there is no mode {', '.join(sorted(unknown))}")
    for api, modes in MODES.items():
        if (options.api or api) == api and options.modes and not set(options.modes) & set(modes):
            parser.error(f"rounds of {api} have none of these modes: say --api")
    options.build = os.path.abspath(options.build)
    options.mpi_environment = mpi_environment(options.build)
    return options


def main():
    options = arguments()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seeds {seed} to {seed + options.rounds - 1}", flush=True)
    before = shared_memory()
    adopt_orphans()

    def run(number):
        api = options.api or ("MPI" if (seed + number) % 3 == 2 else "C")
        result = Round(options, api, seed + number).run()
        for complaint in result.complaints:
            print(f"{result.round.name()}: {complaint}", flush=True)
        return result

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(run, range(options.rounds)))
    doubtful = [number for number, result in enumerate(results) if result.is_doubtful()]
    for number in doubtful:
        print(f"{results[number].round.name()}: repeated alone, as a busy machine may be the reason", flush=True)
        results[number] = run(number)
    results.sort(key=lambda result: result.round.api)
    if options.verbose:
        table(results, lambda r: f"{r.api}, {r.mode}, {r.fault}")
    table(results, lambda r: "C API" if r.api == "C" else "MPI")
    left = sorted(shared_memory() - before) + orphans()
    if left:
        print(f"left behind: {', '.join(left)}")
    bad = sum(bool(result.complaints) for result in results)
    print(f"faults: {options.rounds} rounds from seed {seed} on, {bad} wrong, {len(doubtful)} repeated, "
          f"{len(left)} things left behind")
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
