#!/usr/bin/env bash
# Installs what is missing, builds the release tools and compares GPipe with
# 1F1B: the paper's model, 8 stages on a DGX-H100-class system, 8 to 64
# microbatches. Prints the comparison and leaves report, trace and pictures in
# out/; their names are the last lines.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

install_packages "${build_packages[@]}"
build release pipesched-opt pipesched-translate

bin=build/release/bin
out=out
mkdir -p "$out"

# schedules RECOMPUTE MICROBATCHES...: a module with both families at each size,
# the model and the system attached.
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

printf '\nAs the paper has it, all activations kept:\n\n'
"$bin"/pipesched-translate --export-comparison "$out"/schedules.mlir
printf '\nWith full recomputation (pipe-attach-model{recompute=full}):\n\n'
"$bin"/pipesched-translate --export-comparison "$out"/recomputed.mlir

printf '%s\n' '' "$out"/schedules.mlir "$out"/slots.svg "$out"/report.json \
  "$out"/trace.json "$out"/schedule.svg
