#!/usr/bin/env bash
# A fresh virtual environment with a library to compare with: `benchmarks/peers/make_env.sh dgl|pyg FOLDER`.
#
# dgl: DGL 2.1.0 with GraphBolt. It needs torch 2.2.1, whose only build on PyPI brings CUDA's libraries (5.6 GB in all).
# pyg: PyG with torch-scatter and torch-sparse, compiled here: 24 minutes of CPU time, 1.5 GB.
# Both can import gnnhet from this checkout. Say PYTHON=... for another interpreter than python3.11.
set -euo pipefail

usage() {
  echo "usage: make_env.sh dgl|pyg FOLDER (a new one)" >&2
  exit 2
}

[ $# -eq 2 ] || usage
name=$1 folder=$2
case $name in dgl | pyg) ;; *) usage ;; esac
if [ -e "$folder" ]; then
  echo "the folder must be a new one, got $folder: remove it first" >&2
  exit 2
fi
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

"${PYTHON:-python3.11}" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --no-input "$@"; }
own=(numba xxhash rich typer matplotlib psutil scipy) # what gnnhet imports, next to torch, numpy and PyG

case $name in
dgl)
  # One call, so that one solution holds all pins. setuptools below 81 still has pkg_resources, which torchdata reads.
  pip install 'torch==2.2.1' 'dgl==2.1.0' 'numpy<2' 'torchdata==0.7.1' 'setuptools<81' wheel pandas pyyaml pydantic \
    torch-geometric "${own[@]}"
  ;;
pyg)
  pip install 'torch==2.13.0' 'torch-geometric==2.8.1' numpy ninja setuptools wheel "${own[@]}"
  MAX_JOBS=${MAX_JOBS:-2} pip install --no-build-isolation --no-binary torch-scatter,torch-sparse \
    'torch-scatter==2.1.2' 'torch-sparse==0.6.18'
  ;;
esac
pip install --no-deps --editable "$repo" # its own pins on torch are newer than DGL's

cd /
case $name in
dgl) "$folder/bin/python" -c 'import dgl, dgl.graphbolt, torch; print("dgl", dgl.__version__, "torch", torch.__version__)' ;;
pyg) "$folder/bin/python" -c '
import torch, torch_geometric, torch_geometric.typing as found
assert found.WITH_TORCH_SPARSE, "torch-sparse does not load"
print("PyG", torch_geometric.__version__, "torch", torch.__version__)' ;;
esac
