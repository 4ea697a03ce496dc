//===- ResizeModelTest.cpp - A model in other microbatches ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shipped models, expanded with all kinds of options, can be resized. Any other
// model needs a model of the other size alongside it, or is refused.
//
//===----------------------------------------------------------------------===//

#include "../Support/ErrorText.h"
#include "PipeSched/Description/Description.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// The model as `pipe-attach-model` makes it.
static ModelFacts expand(const Architecture &architecture,
                         ExpansionOptions options, int64_t size) {
  options.microbatchSize = size;
  ModelFacts facts = llvm::cantFail(expandArchitecture(architecture, options));
  facts.name = "mine";
  return facts;
}

TEST(ResizeModel, GivesWhatTheArchitectureDoes) {
  for (const EmbeddedFile &file : embeddedModels())
    for (int64_t sequence : {0, 1000})
      for (Attention attention : {Attention::Fused, Attention::Unfused})
        for (Precision precision :
             {Precision::BF16, Precision::FP8, Precision::NVFP4})
          for (bool isParallel : {true, false}) {
            Architecture architecture =
                llvm::cantFail(findArchitecture(file.name, sequence));
            architecture.attention = attention;
            ExpansionOptions options;
            options.precision = precision;
            options.sequenceParallel = isParallel;
            options.recompute = Recompute::Selective;
            ModelFacts two = expand(architecture, options, 2);
            for (int64_t size : {1, 2, 3, 16})
              EXPECT_EQ(llvm::cantFail(resizeModel(two, size, {})),
                        expand(architecture, options, size))
                  << file.name.str() << " of " << size;
          }
}

/// A model that does not ship.
static ModelFacts handMade(int64_t size) {
  ModelFacts model;
  model.name = "hand_made";
  model.microbatchSize = size;
  BlockFacts block;
  block.name = "layer";
  block.activationBytes = 100 * size;
  model.blocks = {block};
  return model;
}

TEST(ResizeModel, TakesTheOneThatIsThere) {
  ModelFacts one = handMade(1), two = handMade(2), strange = handMade(2);
  two.name = "two";
  strange.name = "strange";
  strange.blocks[0].parameters = 1;
  ModelFacts models[] = {one, strange, two};
  EXPECT_EQ(llvm::cantFail(resizeModel(one, 2, models)), two);
  EXPECT_EQ(llvm::cantFail(resizeModel(one, 1, models)), one);
  EXPECT_EQ(llvm::cantFail(resizeModel(two, 1, models)), one);
}

TEST(ResizeModel, RefusesWhatItDoesNotKnow) {
  ModelFacts one = handMade(1), two = handMade(2), other = handMade(2);
  two.name = "two";
  other.name = "other";
  EXPECT_EQ(errorOf(resizeModel(one, 2, one)),
            "has model 'hand_made', which does not ship with the library, and "
            "the module has none like it with microbatches of 2 sequences: "
            "attach it with microbatch-size=2 first, then with "
            "microbatch-size=1");
  EXPECT_EQ(errorOf(resizeModel(one, 2, {two, other})),
            "has model 'hand_made', and with microbatches of 2 sequences there "
            "are both 'two' and 'other'");
  Architecture toy = llvm::cantFail(findArchitecture("toy"));
  EXPECT_EQ(errorOf(resizeModel(expand(toy, {}, 1), int64_t(1) << 60, {})),
            "has model 'mine', which cannot have microbatches of "
            "1152921504606846976 sequences: the activation between stages is "
            "over 2^63 - 1 bytes");
}
