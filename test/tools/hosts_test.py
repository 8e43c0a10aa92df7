#!/usr/bin/python3
"""hosts_test.py INFO MPIRUN...: gpucoll-info --check --hosts finds in what hosts differ."""
import copy
import json
import os
import subprocess
import sys
import tempfile

INFO, *MPIRUN = sys.argv[1:]


def check(*paths):
    done = subprocess.run([INFO, "--check", "--hosts", *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)
    return done.returncode, done.stdout


def changed(host, name, change):
    other = copy.deepcopy(host)
    other["host"] = name
    change(other)
    return other


def set_parameter(name, value):
    def change(host):
        for parameter in host["parameters"]:
            if parameter["name"] == name:
                parameter["value"] = value
    return change


def network(*addresses):
    return {"addresses": [{"interface": "eth0", "address": address, "loopback": False} for address in addresses]}


def main():
    here = json.loads(subprocess.run([INFO, "--json"], stdout=subprocess.PIPE, text=True, timeout=60).stdout)
    assert here["host"] and here["open_mpi"][0] in "45", here["open_mpi"]
    here.update(host="a", network=network("192.0.2.1"))
    cases = [
        (lambda host: None, 0, "ok      versions, devices, parameters and kinds of addresses fit together on 2 hosts"),
        (lambda host: host.update(version="9.9"), 2, f"fault   gpucoll's version differs between hosts: {here['version']} on a; 9.9 on b"),
        (lambda host: host.update(open_mpi="4.0.0"), 2, f"fault   Open MPI's version differs between hosts: {here['open_mpi']} on a; 4.0.0 on b"),
        (lambda host: host["platform"].update(name="cuda"), 2, "fault   what collectives run on differs between hosts: emu on a; cuda on b"),
        (lambda host: host["devices"].pop(), 0, "note    what devices there are differs between hosts: 2 x emulated device on a; 1 x emulated device on b"),
        (set_parameter("buffer_bytes", "7"), 2, "fault   the parameter buffer_bytes differs between hosts: "),
        (set_parameter("verbose", "2"), 0, "fit together on 2 hosts"),
        (lambda host: host.update(network=network("fd00::1")), 2, "fault   a and b have no address of one kind"),
        (lambda host: host.update(network=network("fd00::1", "192.0.2.2")), 0, "fit together on 2 hosts"),
    ]
    with tempfile.TemporaryDirectory() as work:
        for i, (change, status, sentence) in enumerate(cases):
            path = os.path.join(work, f"{i}.json")
            with open(path, "w") as file:  # one behind the other
                file.write(json.dumps(here) + "\n" + json.dumps(changed(here, "b", change), indent=2))
            found, output = check(path)
            assert found == status and sentence in output, f"case {i}: {found}, {output}"
            assert output.count("\n") == (2 if status else 1), output
        # As mpirun leaves it; two processes on one host are one host.
        folder = os.path.join(work, "out")
        done = subprocess.run([*MPIRUN, "-np", "2", "--output-filename", folder, INFO, "--json"],
                              stdout=subprocess.DEVNULL, timeout=60)
        assert done.returncode == 0
        found, output = check(folder)
        assert found == 0 and "all is from one host, " in output, output
        bad = os.path.join(work, "bad")
        for content, sentence in (("{}", "is not what gpucoll-info --json writes"), ("", "has nothing of"),
                                  ("{", "is not what gpucoll-info --json writes")):
            with open(bad, "w") as file:
                file.write(content)
            found, output = check(bad)
            assert found == 2 and sentence in output and bad in output, output
        found, output = check(os.path.join(work, "missing"))
        assert found == 2 and "missing cannot be read" in output, output


main()
