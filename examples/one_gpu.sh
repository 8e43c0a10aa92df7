#!/bin/bash
# Shows a program one of the GPUs that this process may use: each rank of a node gets the next one, and more ranks than
# GPUs share them. For mpirun and for Slurm's srun:
#
#   mpirun --mca coll gpucoll -np 4 ./one_gpu.sh ./app
#   srun --mpi=pmix ./one_gpu.sh ./app
set -euo pipefail
list=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd ,)}
IFS=, read -ra gpus <<<"$list"
# mpirun's first: below mpirun, Slurm counts mpirun's own processes.
local_rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}
export CUDA_VISIBLE_DEVICES=${gpus[local_rank % ${#gpus[@]}]}
exec "$@"
