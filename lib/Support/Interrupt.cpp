//===- Interrupt.cpp - SIGINT during long work ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first watch replaces the host's handler. The last one restores it and
// passes the signal on to it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Interrupt.h"
#include "llvm/Config/llvm-config.h"
#include <mutex>

#if LLVM_ON_UNIX
#include <csignal>
#endif

using namespace pipesched;

static std::atomic<bool> isInterrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may set it");

#if LLVM_ON_UNIX

namespace {
/// The host's handler while ours replaces it. The lock protects all fields.
struct HostHandler {
  std::mutex lock;
  unsigned numWatches = 0;
  bool isReplaced = false;
  struct sigaction action = {};
};
} // namespace

static HostHandler &host() {
  static HostHandler handler;
  return handler;
}

static void onInterrupt(int /*signal*/) { isInterrupted = true; }

InterruptWatch::InterruptWatch() {
  std::lock_guard<std::mutex> guard(host().lock);
  if (host().numWatches++ > 0)
    return;
  isInterrupted = false;
  if (sigaction(SIGINT, nullptr, &host().action) != 0)
    return;
  bool hasInfo = host().action.sa_flags & SA_SIGINFO;
  if (!hasInfo && (host().action.sa_handler == SIG_DFL ||
                   host().action.sa_handler == SIG_IGN))
    return;
  struct sigaction ours = {};
  ours.sa_handler = onInterrupt;
  sigemptyset(&ours.sa_mask);
  host().isReplaced = sigaction(SIGINT, &ours, nullptr) == 0;
}

InterruptWatch::~InterruptWatch() {
  std::lock_guard<std::mutex> guard(host().lock);
  if (--host().numWatches > 0 || !host().isReplaced)
    return;
  host().isReplaced = false;
  sigaction(SIGINT, &host().action, nullptr);
  if (isInterrupted)
    (void)std::raise(SIGINT);
}

const std::atomic<bool> *InterruptWatch::current() {
  std::lock_guard<std::mutex> guard(host().lock);
  return host().numWatches > 0 ? &isInterrupted : nullptr;
}

#else

InterruptWatch::InterruptWatch() = default;
InterruptWatch::~InterruptWatch() = default;

const std::atomic<bool> *InterruptWatch::current() { return nullptr; }

#endif

const std::atomic<bool> *InterruptWatch::flag() const { return &isInterrupted; }
