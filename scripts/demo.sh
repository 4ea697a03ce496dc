#!/usr/bin/env bash
# Installs missing packages, builds the release tools and compares GPipe with 1F1B: the paper's
# model, 8 stages on a DGX-H100-class system, 8 to 64 microbatches. Then it installs the Python
# package into .venv, whose command reproduces the paper's table I and ranks families for Llama 3
# 70B. If .venv has PyTorch already, it trains a small GPT by three schedules. It prints tables and
# writes a report, a trace, pictures and a page to out/; the last lines list these files.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_packages "${build_packages[@]}" "${python_packages[@]}"
build release pipesched-opt pipesched-translate
install_python

bin=build/release/bin
out=out
mkdir -p "$out"

# schedules RECOMPUTE MICROBATCHES...: prints a module with both families at each size
# and with the model and the system attached.
schedules() {
  local recompute=$1 family n passes=
  shift
  for family in gpipe 1f1b; do
    for n in "$@"; do
      passes+="pipe-create{name=$family-$n workers=8 microbatches=$n},"
    done
    passes+="pipe-schedule-$family,"
  done
  passes+="pipe-attach-model{name=paper-gpt recompute=$recompute},pipe-attach-system{name=dgx-h100}"
  echo 'module {}' | "$bin"/pipesched-opt --pass-pipeline="builtin.module($passes)"
}

export_to() {
  local input=$1 what=$2 output=$3
  shift 3
  "$bin"/pipesched-translate "--export-$what" "$@" "$input" -o "$output"
}

schedules none 8 16 32 64 >"$out"/schedules.mlir
schedules full 8 16 32 64 >"$out"/recomputed.mlir
schedules none 8 >"$out"/smallest.mlir

export_to "$out"/schedules.mlir report "$out"/report.json
export_to "$out"/schedules.mlir chrome-trace "$out"/trace.json
export_to "$out"/smallest.mlir svg "$out"/schedule.svg
export_to "$out"/smallest.mlir svg "$out"/slots.svg --svg-variant=slots

printf '\nThe smallest two, slot by slot:\n\n'
"$bin"/pipesched-translate --export-text "$out"/smallest.mlir
printf '\nAs the paper has it, all activations kept:\n\n'
"$bin"/pipesched-translate --export-comparison "$out"/schedules.mlir
printf '\nWith full recomputation (pipe-attach-model{recompute=full}):\n\n'
"$bin"/pipesched-translate --export-comparison "$out"/recomputed.mlir

printf "\nThe paper's table I, run again:\n\n"
.venv/bin/pipesched reproduce table1 -o "$out"

printf '\nLlama 3 70B on eight DGX H100, seven schedules:\n\n'
.venv/bin/pipesched simulate --model llama3-70b --system dgx-h100 --pp 8 \
  --microbatches 32 --global-batch 32 --draw "$out"/comparison.html \
  --schedules gpipe,1f1b,interleaved-1f1b,zb-h1,zb-v,dualpipe,hanayo

files=(
  "$out"/schedules.mlir "$out"/report.json "$out"/trace.json "$out"/schedule.svg
  "$out"/slots.svg "$out"/table1.png "$out"/table1.svg "$out"/comparison.html
)

printf '\nA small GPT, trained by three schedules on this machine:\n\n'
if .venv/bin/python -c 'import torch' 2>/dev/null; then
  .venv/bin/pipesched run --schedule gpipe,1f1b,zb-v examples/gpt \
    --pp 2 --microbatches 8 -o "$out"/run
  files+=("$out"/run/*.svg)
else
  printf '%s\n' 'PyTorch is not installed. This installs it for CPUs, and trains:' \
    '  .venv/bin/pip install torch --index-url https://download.pytorch.org/whl/cpu' \
    '  .venv/bin/pipesched run --schedule gpipe,1f1b,zb-v examples/gpt \' \
    '    --pp 2 --microbatches 8'
fi

printf '%s\n' '' "${files[@]}"
