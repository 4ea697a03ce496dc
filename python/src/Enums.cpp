//===- Enums.cpp - Enums as numbers ---------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists the enums whose values users choose by name.
//
//===----------------------------------------------------------------------===//

#include "Enums.h"
#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "PipeSched/Facts/Deployment.h"
#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Kinds/Transport.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Target/Comparison.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TorchCsv.h"

namespace nb = nanobind;
using namespace pipesched;

llvm::Error
pipesched::python::makeEnumError(llvm::StringRef what, int number,
                                 llvm::ArrayRef<llvm::StringRef> names) {
  std::string allowed;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != 0)
      allowed += i + 1 == names.size() ? " or " : ", ";
    allowed += std::to_string(i) + " (" + names[i].str() + ")";
  }
  return formatError("expected {0} to be {1}, found {2}", what, allowed,
                     number);
}

template <typename Enum>
static void add(nb::dict &enums, const char *name) {
  nb::list names;
  for (const EnumName<Enum> &value : enumValues<Enum>())
    names.append(nb::str(value.name.data(), value.name.size()));
  enums[name] = nb::tuple(names);
}

/// Each enum has the name of the option that takes it.
nb::dict pipesched::python::listEnums() {
  nb::dict enums;
  add<Transport>(enums, "transport");
  add<ReceivePlacement>(enums, "receive-placement");
  add<ForwardSends>(enums, "forward-sends");
  add<Runtime>(enums, "runtime");
  add<MessageSemantics>(enums, "messages");
  add<InstructionKind>(enums, "instruction");
  add<Lane>(enums, "lane");
  add<Rates>(enums, "rates");
  add<Recompute>(enums, "recompute");
  add<AttentionKernels>(enums, "attention");
  add<Precision>(enums, "precision");
#define DEPLOYMENT_CHOICE(Enum, member, name, ...) add<Enum>(enums, name);
#define DEPLOYMENT_SIZES(Enum, member, name, ...) add<Enum>(enums, name);
#include "PipeSched/Facts/Deployment.def"
  add<OptimizerStep>(enums, "optimizer-step");
  add<SourceKind>(enums, "source");
  add<SvgVariant>(enums, "svg-variant");
  add<TorchCsvFormat>(enums, "torch-csv-format");
  add<ChimeraConstruction>(enums, "construction");
  add<VocabularyAlgorithm>(enums, "vocabulary");
  add<GradientAfter>(enums, "gradient-after");
  add<SlotMeasure>(enums, "slots");
  add<Balance>(enums, "balance");
  add<Assign>(enums, "assign");
  add<Asymmetry>(enums, "asymmetry");
  add<OffloadAmount>(enums, "offload-amount");
  add<ReductionPlace>(enums, "all-reduce");
  add<optimize::Objective>(enums, "objective");
  add<MemoryTimes>(enums, "memory-times");
  add<PlacementKind>(enums, "placements");
  add<FindingKind>(enums, "finding");
  add<LayerPart>(enums, "layer-part");
  add<PairOrder>(enums, "order");
  return enums;
}
