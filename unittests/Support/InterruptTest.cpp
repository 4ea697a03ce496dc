//===- InterruptTest.cpp - SIGINT during a search -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends SIGINT to this process, with and without a handler of its own.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Interrupt.h"
#include "gtest/gtest.h"
#include <csignal>
#include <memory>

using pipesched::InterruptWatch;

static volatile std::sig_atomic_t numSignals = 0;
static void count(int /*signal*/) { numSignals = numSignals + 1; }

TEST(InterruptWatch, HandsTheSignalOnWhenTheLastOneEnds) {
  numSignals = 0;
  auto before = std::signal(SIGINT, count);
  auto first = std::make_unique<InterruptWatch>();
  auto second = std::make_unique<InterruptWatch>();
  EXPECT_FALSE(*first->flag());
  std::raise(SIGINT);
  EXPECT_TRUE(*first->flag());
  EXPECT_TRUE(*second->flag());
  EXPECT_EQ(numSignals, 0);
  first.reset();
  EXPECT_EQ(numSignals, 0);
  second.reset();
  EXPECT_EQ(numSignals, 1);
  // The flag is clear for the next search, and the host has its handler again.
  EXPECT_FALSE(*InterruptWatch().flag());
  EXPECT_EQ(numSignals, 1);
  std::raise(SIGINT);
  EXPECT_EQ(numSignals, 2);
  std::signal(SIGINT, before);
}

TEST(InterruptWatch, IsCurrentWhileItLives) {
  EXPECT_EQ(InterruptWatch::current(), nullptr);
  {
    InterruptWatch watch;
    EXPECT_EQ(InterruptWatch::current(), watch.flag());
  }
  EXPECT_EQ(InterruptWatch::current(), nullptr);
}

TEST(InterruptWatch, LeavesProcessesWithoutAHandlerAlone) {
  auto before = std::signal(SIGINT, SIG_DFL);
  {
    InterruptWatch watch;
    auto during = std::signal(SIGINT, SIG_DFL);
    EXPECT_EQ(during, SIG_DFL);
  }
  std::signal(SIGINT, before);
}
