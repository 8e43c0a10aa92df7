# Tests of label install: what make install leaves, used as a stranger would.
EXTRA_DIST += test/install/tests.cmake test/install/exports.sh test/install/install.sh test/install/modulefiles.sh
