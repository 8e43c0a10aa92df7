#!/bin/bash
# Programs from Debian's packages, in each of three ways: without gpucoll, with gpucoll installed as it is by default, and
# with the emulated device besides. What they print must be the same. Run by contrib/try-programs inside its system.
# usage: programs.sh ROUNDS PROGRAM...   (a round is all three ways of a program, one after the other)
set -u
work=/gpucoll/programs
lib=$(ompi_info --path pkglibdir --parsable | sed -n 's/^path:pkglibdir://p')
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# mpi RANKS COMMAND...
mpi() { timeout 1000 mpirun --oversubscribe --bind-to none -np "$@"; }

# Each program runs in an empty directory of its own, prints what must not differ, without times, and returns non-zero
# where it finds itself wrong.

program_hpcc() {
  sed -e 's/^1000 /400 /' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt
  mpi 4 hpcc >/dev/null || return 1
  grep -E 'PASSED|FAILED|assed\)|^(Success|HPL_N|PTRANS_residual|MPIFFT_maxErr|StarFFT_maxErr|Single.*_maxErr)=' \
    hpccoutf.txt | sed -E 's/^(WALL|CPU) .*(PASSED|FAILED).*/\1 \2/'
  grep -q '^Success=1' hpccoutf.txt && ! grep -q 'FAILED' hpccoutf.txt
}

program_lammps() {
  local example
  for example in melt peptide rigid; do
    cp /usr/share/doc/lammps-examples/examples/$example/* .
    gunzip -f ./*.gz 2>/dev/null
    mpi 4 lmp -in in.$example -log none >$example.out || return 1
    sed -n '/^ *Step \|^-* Step/,/^Loop time/p' $example.out | sed 's/--* CPU.*//; /^Loop time/d'
  done
}

program_gromacs() {
  local molecules
  gmx_mpi -quiet solvate -cs spc216 -box 3 3 3 -o box.gro >log 2>&1 || return 1
  molecules=$(($(sed -n 2p box.gro) / 3))
  printf '#include "amber99sb.ff/%s"\n' forcefield.itp spce.itp >topol.top
  printf '[ system ]\nwater\n[ molecules ]\nSOL %d\n' "$molecules" >>topol.top
  printf '%s\n' 'integrator = md' 'nsteps = 300' 'dt = 0.001' 'coulombtype = PME' 'nstenergy = 50' \
    'gen-vel = yes' 'gen-seed = 7' >md.mdp
  gmx_mpi -quiet grompp -f md.mdp -c box.gro -p topol.top -o run.tpr -maxwarn 2 >>log 2>&1 || return 1
  mpi 4 gmx_mpi -quiet mdrun -s run.tpr -ntomp 1 -reprod >>log 2>&1 || return 1
  gmx_mpi -quiet dump -e ener.edr 2>/dev/null | grep -E 'time:|Potential|Kinetic|Pressure'
}

program_quantum_espresso() {
  cat >si.in <<'END'
 &control
    calculation = 'scf', prefix = 'silicon', tstress = .true., tprnfor = .true.
    pseudo_dir = '/usr/share/espresso/pseudo/', outdir = './'
 /
 &system
    ibrav = 2, celldm(1) = 10.20, nat = 2, ntyp = 1, ecutwfc = 18.0
 /
 &electrons
    conv_thr = 1.0d-8
 /
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.26 0.25 0.25
K_POINTS automatic
 3 3 3 1 1 1
END
  mpi 4 pw.x -nk 2 -in si.in >si.out || return 1
  grep -E 'total energy|highest|atom .* force|Total force|P=|convergence has been' si.out
}

# BLACS ends with an abort; its test of repeatable sums is skipped unless messages happen to overtake one another. xdsep
# is not here, as one of its tests passes or fails from run to run, without gpucoll as with it.
program_scalapack() {
  local test
  cp -rL /usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests/. .
  for test in BLACS/xCbtest PBLAS/dpb1tst xdlu; do
    (cd "$(dirname $test)" && mpi 4 "./$(basename $test)") >out 2>&1 || [[ $test == BLACS/* ]] || return 1
    echo "$test"
    grep -E '^ +[0-9]+ tests |TESTS;|(PASSED|FAILED) +\*|^ (PASSED|FAILED) ' out | grep -v 'REPEATABLE SUM'
  done
}

program_mumps() {
  local kind input
  for kind in s d c z; do
    input=/usr/lib/mumps/input_simpletest_real
    [[ $kind == [cz] ]] && input=/usr/lib/mumps/input_simpletest_cmplx
    mpi 3 /usr/lib/mumps/${kind}simpletest <$input >out || return 1
    grep -A 20 -i 'solution is' out
  done
}

# What fails is compared too. MPI_Comm_join and some spawned processes hang or fail in Debian's Open MPI itself.
program_mpi4py() {
  tar -xzf "$work"/mpi4py-*.tar.gz --strip-components=1
  mpi 2 sh -c 'exec python3 -W ignore test/runtests.py --no-builddir -e spawn -e dynproc -v \
    >out.$OMPI_COMM_WORLD_RANK 2>&1'
  local status=$?
  grep -h -E ' \.\.\. ' out.0 out.1
  return $status
}

# run_one PROGRAM WAY: leaves PROGRAM.WAY.out, and appends user and system seconds to PROGRAM.WAY.times
run_one() {
  local program=$1 way=$2 directory=$work/$1.$2
  rm -rf "$directory" && mkdir -p "$directory" && cd "$directory" || return 1
  case $way in
    without) export OMPI_MCA_mca_base_component_path=$lib ;;
    emulated) export GPUCOLL_DEVICE=emu ;;
  esac
  local TIMEFORMAT='%U %S'
  { time "program_$program" >"$work/$program.$way.out" 2>"$work/$program.$way.err"; } 2>>"$work/$program.$way.times"
}

# seconds PROGRAM WAY: the median of user and system time together
seconds() {
  awk 'NF == 2 { print $1 + $2 }' "$work/$1.$2.times" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}

# report PROGRAM FAILED-WAYS
report() {
  local program=$1 outcome=same way
  [[ -s $work/$program.without.out ]] || outcome="nothing printed"
  for way in installed emulated; do
    cmp -s "$work/$program.without.out" "$work/$program.$way.out" || outcome="differs $way"
  done
  [[ -z $2 ]] || outcome="failed:$2"
  printf '%-18s %-22s %6d lines  %8.1f s %8.1f s %8.1f s\n' "$program" "$outcome" \
    "$(wc -l <"$work/$program.without.out")" "$(seconds $program without)" "$(seconds $program installed)" \
    "$(seconds $program emulated)"
  [[ $outcome == same ]]
}

rounds=$1
shift
result=0
printf '%-18s %-22s %12s  %10s %10s %10s\n' program outcome compared without installed emulated
for program; do
  failed=
  rm -f "$work/$program".*.times
  for ((round = 0; round < rounds; round++)); do
    for way in without installed emulated; do
      (run_one "$program" $way) || failed+=" $way"
    done
  done
  report "$program" "$failed" || result=1
done
exit $result
