# Submits jobs like those of docs/guide.md; contrib/try-slurm runs it on the first host of its cluster. Each must do as written there.
set -euo pipefail
cd /gpucoll
zcat -f /usr/share/doc/libgpucoll-dev/examples/one_gpu.sh* >one_gpu.sh
chmod +x one_gpu.sh
fail() { echo "slurm.sh: $*" >&2; exit 1; }

# job NAME: runs a batch script from the standard input, and shows what it has written.
job() {
  local options="--nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --cpus-per-task=8"
  echo "==> $1"
  { printf '%s\n' '#!/bin/bash' "#SBATCH --output=/gpucoll/$1.out --time=5:00" "#SBATCH $options" && cat; } >"$1.job"
  sbatch --wait --quiet "$1.job" || { cat "$1.out" >&2; fail "$1: the job has failed"; }
  cat "$1.out"
  output=$1.out
}
# expect COUNT PATTERN: so many lines of the last job's output match.
expect() {
  local found
  found=$(grep -cE -- "$2" "$output" || true)
  [[ $found == "$1" ]] || fail "$output: $found lines match '$2', not $1"
}
perf="gpucoll-perf allreduce -b 8 -e 4K -f 8 -n 3"

job pmix <<JOB
export OMPI_MCA_coll=gpucoll GPUCOLL_VERBOSE=1
export SRUN_CPUS_PER_TASK=\$SLURM_CPUS_PER_TASK
srun --mpi=list
srun --mpi=pmix $perf
JOB
expect 1 '^[[:space:]]pmix$'
expect 1 '4 ranks on 2 nodes'
expect 4 'rank [0-3] of 4 on emulated device: .*, links over tcp between nodes'
expect 1 '^# wrong elements: 0$'

# mpirun refuses to run as root without the first line. Without the last one, it binds ranks of both hosts to the same processors.
job mpirun <<JOB
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_coll=gpucoll GPUCOLL_VERBOSE=1
export OMPI_MCA_hwloc_base_binding_policy=none
mpirun $perf
JOB
expect 1 '4 ranks on 2 nodes'
expect 4 'rank [0-3] of 4 on emulated device: .*, links over tcp between nodes'
expect 1 '^# wrong elements: 0$'

# Slurm 22.05 shows each task all GPUs of its job on the node, and one_gpu.sh deals them out.
job one_gpu <<JOB
srun --mpi=pmix bash -c 'echo all: \$SLURM_PROCID \$CUDA_VISIBLE_DEVICES'
srun --mpi=pmix ./one_gpu.sh bash -c 'echo one: \$SLURM_LOCALID \$CUDA_VISIBLE_DEVICES'
JOB
expect 4 '^all: [0-3] 0,1$'
expect 2 '^one: 0 0$'
expect 2 '^one: 1 1$'

# With --gpus-per-task, Slurm deals them out itself. This one does not yet know how to do so without hiding the others.
job per_task <<JOB
srun --gpus-per-task=1 bash -c 'echo own: \$SLURM_LOCALID \$CUDA_VISIBLE_DEVICES'
srun --gpus-per-task=1 --gres-flags=allow-task-sharing true || echo refused
JOB
expect 2 '^own: 0 0$'
expect 2 '^own: 1 1$'
expect 1 '^refused$'

# Without PMIx, Debian's Open MPI does not start.
job none <<JOB
for interface in none pmi2; do
  srun --mpi=\$interface $perf >\$interface.err 2>&1 ||
    echo "\$interface: \$(grep -c 'An error occurred in MPI_Init' \$interface.err) errors"
done
JOB
expect 1 '^none: 4 errors$'
expect 1 '^pmi2: 4 errors$'
