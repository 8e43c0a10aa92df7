# Tests of label hosts: scripts.
EXTRA_DIST += test/hosts/agent test/hosts/cut_wire.sh test/hosts/fault test/hosts/functions.sh test/hosts/ipv6.sh test/hosts/messages.sh test/hosts/mpi.sh test/hosts/run \
	test/hosts/tests.cmake
