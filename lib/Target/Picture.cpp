//===- Picture.cpp - What a drawing of a schedule shows -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a timeline or a table to boxes and bars.
//
//===----------------------------------------------------------------------===//

#include "Picture.h"
#include "Format.h"
#include "PipeSched/Analysis/Summary.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// What both variants share
//===----------------------------------------------------------------------===//

/// Numbers the stages of each worker: path by path, in the order of the path.
static void assignShades(Picture &picture) {
  const Placement &placement = *picture.placement;
  std::vector<int> stagesOnWorker(placement.getNumWorkers());
  bool isPath = true;
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int32_t worker : placement.getPath(path).workers) {
      int shade = stagesOnWorker[worker]++;
      isPath &= shade == path;
      picture.shadeOf.push_back(shade);
      picture.numShades = std::max(picture.numShades, shade + 1);
    }
  if (picture.numShades == 1)
    picture.shadeKind = ShadeKind::None;
  else if (placement.getNumPaths() == 1)
    picture.shadeKind = ShadeKind::Chunk;
  else
    picture.shadeKind = isPath ? ShadeKind::Path : ShadeKind::Stage;
}

static std::string countOf(int64_t number, llvm::StringRef one,
                           llvm::StringRef many) {
  return std::to_string(number) + " " + (number == 1 ? one : many).str();
}

static Picture startPicture(const NamedEvaluation &result) {
  const Placement &placement = result.placement;
  Picture picture;
  picture.placement = &placement;
  picture.title = printableName(result.name);
  picture.rows.resize(placement.getNumWorkers());
  picture.bars.resize(placement.getNumWorkers());
  picture.numDigits = std::to_string(placement.getNumMicrobatches() - 1).size();
  assignShades(picture);
  llvm::raw_string_ostream subtitle(picture.subtitle);
  if (!result.family.empty())
    subtitle << printableName(result.family) << " · ";
  subtitle << countOf(placement.getNumWorkers(), "worker", "workers") << " × "
           << countOf(placement.getNumMicrobatches(), "microbatch",
                      "microbatches");
  return picture;
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

static void addBars(Picture &picture, const Execution &execution,
                    uint32_t task) {
  const TaskGraph &graph = execution.graph;
  int64_t begin = execution.timeline.startPs[task];
  int64_t release = begin + execution.times.occupancyPs[task];
  int64_t end = release + execution.times.latencyPs[task];
  if (begin == end)
    return;
  auto add = [&](int64_t worker, Lane lane) {
    picture.bars[worker].push_back(
        {begin, release, end, graph.cell[task], lane});
  };
  switch (graph.kind[task]) {
  case TaskKind::Message:
  case TaskKind::Send:
    add(graph.worker[task], Lane::Send);
    return add(graph.peer[task], Lane::Receive);
  case TaskKind::Offload:
    return add(graph.worker[task], Lane::Offload);
  case TaskKind::Reload:
    return add(graph.worker[task], Lane::Reload);
  case TaskKind::Compute:
  case TaskKind::Recv: // drawn with its send
  case TaskKind::AllReduce:
    return;
  }
}

Picture pipesched::pictureOfTimeline(const NamedEvaluation &result) {
  Picture picture = startPicture(result);
  const Execution &execution = result.evaluation.execution;
  const TaskGraph &graph = execution.graph;
  picture.length = execution.timeline.makespanPs;
  picture.subtitle += " · step " + formatTime(picture.length) + " · idle " +
                      formatPercent(summarize(execution).idleRatio);
  for (int64_t worker = 0; worker < graph.getNumWorkers(); ++worker)
    for (uint32_t task : graph.row(worker)) {
      int64_t begin = execution.timeline.startPs[task];
      picture.rows[worker].push_back(
          {begin, begin + execution.times.occupancyPs[task], graph.cell[task],
           overlappedCell(graph, task)});
    }
  for (uint32_t task = 0; task < graph.size(); ++task)
    addBars(picture, execution, task);
  return picture;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// Boxes of one row. `flat` is the flat index of its first cell.
static std::vector<Box> boxesOfRow(llvm::ArrayRef<Cell> row, uint32_t flat,
                                   const SlotAssignment &slots) {
  std::vector<Box> boxes;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!row[i].isCompute())
      continue;
    Box box{slots.start[flat + i], slots.end(flat + i, row, i), row[i],
            std::nullopt};
    if (row[i].overlapsNext())
      box.second = row[++i];
    boxes.push_back(box);
  }
  return boxes;
}

llvm::Expected<Picture>
pipesched::pictureOfSlots(const NamedEvaluation &result) {
  if (result.isProgram())
    return llvm::createStringError(
        "program '" + printableName(result.name) +
        "' has no slots; draw its timeline, or keep the schedule when "
        "converting it");
  TableView table = result.tableView();
  llvm::Expected<CellIndex> index = CellIndex::create(table);
  if (!index)
    return index.takeError();
  llvm::Expected<SlotAssignment> slots = assignSlots(table, *index);
  if (!slots)
    return slots.takeError();
  Picture picture = startPicture(result);
  picture.isInSlots = true;
  picture.length = slots->numSlots;
  picture.subtitle += " · " + std::to_string(picture.length) +
                      " slots · bubble " +
                      formatPercent(result.evaluation.table->bubbleRatio);
  for (auto [worker, row] : llvm::enumerate(table.rows))
    picture.rows[worker] = boxesOfRow(row, index->rowBegin(worker), *slots);
  return picture;
}
