//===- Enums.cpp - C API for the names of enums ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the enums whose values users choose by name, and checks that the enums
// of C equal those of C++.
//
//===----------------------------------------------------------------------===//

#include "Enums.h"
#include "PipeSched-c/Catalogue.h"
#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
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
#include "mlir/CAPI/Support.h"

using namespace pipesched;

//===----------------------------------------------------------------------===//
// The enums of C are those of C++
//===----------------------------------------------------------------------===//

/// Whether the enum of C++ has no value behind this one.
template <typename Enum, typename CEnum>
static constexpr bool isLast(CEnum value) {
  return static_cast<size_t>(value) + 1 == kNumEnumValues<Enum>;
}

static_assert(isSame(PipeschedRecomputeNone, Recompute::None) &&
              isSame(PipeschedRecomputeSelective, Recompute::Selective) &&
              isSame(PipeschedRecomputeFull, Recompute::Full));
static_assert(isSame(PipeschedAttentionAsDescribed,
                     AttentionKernels::AsDescribed) &&
              isSame(PipeschedAttentionFused, AttentionKernels::Fused) &&
              isSame(PipeschedAttentionUnfused, AttentionKernels::Unfused) &&
              isSame(PipeschedAttentionFlash2, AttentionKernels::Flash2) &&
              isSame(PipeschedAttentionFlash3, AttentionKernels::Flash3) &&
              isSame(PipeschedAttentionCudnn, AttentionKernels::Cudnn));
static_assert(isSame(PipeschedPrecisionBF16, Precision::BF16) &&
              isSame(PipeschedPrecisionFP8, Precision::FP8));
static_assert(isSame(PipeschedShardingNone, Sharding::None) &&
              isSame(PipeschedShardingOptimizer, Sharding::Optimizer) &&
              isSame(PipeschedShardingGradients, Sharding::Gradients) &&
              isSame(PipeschedShardingFullKept, Sharding::FullKept) &&
              isSame(PipeschedShardingFull, Sharding::Full));
static_assert(isSame(PipeschedRankOrderData, RankOrder::Data) &&
              isSame(PipeschedRankOrderPipeline, RankOrder::Pipeline));
static_assert(isSame(PipeschedContextExchangeRing, ContextExchange::Ring) &&
              isSame(PipeschedContextExchangeGather, ContextExchange::Gather));
static_assert(isSame(PipeschedExpertDispatchAllToAll,
                     ExpertDispatch::AllToAll) &&
              isSame(PipeschedExpertDispatchPerNode, ExpertDispatch::PerNode) &&
              isSame(PipeschedExpertDispatchPerRank, ExpertDispatch::PerRank));
static_assert(isSame(PipeschedTransportOverlap, Transport::Overlap) &&
              isSame(PipeschedTransportDelay, Transport::Delay) &&
              isSame(PipeschedTransportBlocking, Transport::Blocking) &&
              isSame(PipeschedTransportPairs, Transport::Pairs));
static_assert(isSame(PipeschedReceiveAtArrival, ReceivePlacement::Arrival) &&
              isSame(PipeschedReceiveAtConsumer, ReceivePlacement::Consumer));
static_assert(isSame(PipeschedForwardSendsAsync, ForwardSends::Async) &&
              isSame(PipeschedForwardSendsSync, ForwardSends::Sync));
static_assert(isSame(PipeschedRuntimeTable, Runtime::Table) &&
              isSame(PipeschedRuntimeTorch, Runtime::Torch));
static_assert(isLast<Recompute>(PipeschedRecomputeFull) &&
              isLast<AttentionKernels>(PipeschedAttentionCudnn) &&
              isLast<Precision>(PipeschedPrecisionFP8) &&
              isLast<Sharding>(PipeschedShardingFull) &&
              isLast<RankOrder>(PipeschedRankOrderPipeline) &&
              isLast<ContextExchange>(PipeschedContextExchangeGather) &&
              isLast<ExpertDispatch>(PipeschedExpertDispatchPerRank) &&
              isLast<Transport>(PipeschedTransportPairs) &&
              isLast<ReceivePlacement>(PipeschedReceiveAtConsumer) &&
              isLast<ForwardSends>(PipeschedForwardSendsSync) &&
              isLast<Runtime>(PipeschedRuntimeTorch) &&
              isLast<SvgVariant>(PipeschedSvgRows) &&
              isLast<TorchCsvFormat>(PipeschedTorchCsvComputeComms));
static_assert(isSame(PipeschedSvgTimed, SvgVariant::Timed) &&
              isSame(PipeschedSvgSlots, SvgVariant::Slots) &&
              isSame(PipeschedSvgRows, SvgVariant::Rows));
static_assert(isSame(PipeschedTorchCsvComputeOnly,
                     TorchCsvFormat::ComputeOnly) &&
              isSame(PipeschedTorchCsvComputeComms,
                     TorchCsvFormat::ComputeComms));

//===----------------------------------------------------------------------===//
// Numbers from C
//===----------------------------------------------------------------------===//

llvm::Error pipesched::makeEnumError(llvm::StringRef what, uint32_t number,
                                     llvm::ArrayRef<llvm::StringRef> names) {
  std::string allowed;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != 0)
      allowed += i + 1 == names.size() ? " or " : ", ";
    allowed += std::to_string(i) + " (" + names[i].str() + ")";
  }
  return formatError("expected {0} to be {1}, found {2}", what, allowed,
                     static_cast<int32_t>(number));
}

void EnumReader::keep(llvm::Error error) {
  std::string message = llvm::toString(std::move(error));
  if (first.empty())
    first = std::move(message);
}

llvm::Error EnumReader::take() const {
  return first.empty() ? llvm::Error::success()
                       : llvm::createStringError(first);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

namespace {
struct ListedEnum {
  llvm::StringLiteral name;
  intptr_t numValues;
  PipeschedEnumValue (*getValue)(intptr_t value);
};
} // namespace

template <typename Enum>
static PipeschedEnumValue getValue(intptr_t value) {
  const EnumName<Enum> &entry = enumValues<Enum>()[value];
  return {wrap(entry.name), wrap(entry.meaning)};
}

template <typename Enum>
static constexpr ListedEnum makeListed(llvm::StringLiteral name) {
  return {name, intptr_t(kNumEnumValues<Enum>), getValue<Enum>};
}

/// Each enum has the name of the option that takes it.
static constexpr ListedEnum kEnums[] = {
    makeListed<Transport>("transport"),
    makeListed<ReceivePlacement>("receive-placement"),
    makeListed<ForwardSends>("forward-sends"),
    makeListed<Runtime>("runtime"),
    makeListed<MessageSemantics>("messages"),
    makeListed<InstructionKind>("instruction"),
    makeListed<Lane>("lane"),
    makeListed<Recompute>("recompute"),
    makeListed<AttentionKernels>("attention"),
    makeListed<Precision>("precision"),
#define DEPLOYMENT_CHOICE(Enum, member, name, ...) makeListed<Enum>(name),
#define DEPLOYMENT_SIZES(Enum, member, name, ...) makeListed<Enum>(name),
#include "PipeSched/Facts/Deployment.def"
    makeListed<PipeschedOptimizerStep>("optimizer-step"),
    makeListed<PipeschedSourceKind>("source"),
    makeListed<SvgVariant>("svg-variant"),
    makeListed<TorchCsvFormat>("torch-csv-format"),
    makeListed<ChimeraConstruction>("construction"),
    makeListed<VocabularyAlgorithm>("vocabulary"),
    makeListed<GradientAfter>("gradient-after"),
    makeListed<SlotMeasure>("slots"),
    makeListed<Balance>("balance"),
    makeListed<Assign>("assign"),
    makeListed<Asymmetry>("asymmetry"),
    makeListed<OffloadAmount>("offload-amount"),
    makeListed<ReductionPlace>("all-reduce"),
    makeListed<optimize::Objective>("objective"),
    makeListed<MemoryTimes>("memory-times"),
    makeListed<PlacementKind>("placements"),
    makeListed<FindingKind>("finding"),
    makeListed<LayerPart>("layer-part"),
    makeListed<PairOrder>("order"),
};

static const ListedEnum *findEnum(intptr_t index) {
  return index >= 0 && index < intptr_t(std::size(kEnums)) ? &kEnums[index]
                                                           : nullptr;
}

intptr_t pipeschedGetNumEnums(void) { return std::size(kEnums); }

MlirStringRef pipeschedGetEnumName(intptr_t enumIndex) {
  const ListedEnum *found = findEnum(enumIndex);
  return wrap(found ? llvm::StringRef(found->name) : llvm::StringRef());
}

intptr_t pipeschedGetNumEnumValues(intptr_t enumIndex) {
  const ListedEnum *found = findEnum(enumIndex);
  return found ? found->numValues : 0;
}

PipeschedEnumValue pipeschedGetEnumValue(intptr_t enumIndex, intptr_t value) {
  const ListedEnum *found = findEnum(enumIndex);
  if (!found || value < 0 || value >= found->numValues)
    return {wrap(llvm::StringRef()), wrap(llvm::StringRef())};
  return found->getValue(value);
}
