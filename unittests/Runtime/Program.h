//===- Program.h - Programs of lambdas for a world --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A world whose workers run a function of the test.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_RUNTIME_PROGRAM_H
#define PIPESCHED_UNITTESTS_RUNTIME_PROGRAM_H

#include "PipeSched-rt/Runtime.h"
#include "PipeSched-rt/World.h"
#include "gtest/gtest.h"
#include <functional>
#include <memory>
#include <string>

namespace runtime_test {

/// The arguments of a step, with short names for the calls.
struct Worker {
  int32_t index;
  void *context;
  char *persistent, *arena, *host;
  int64_t step;

  int32_t send(const void *data, int64_t bytes, int32_t peer, int32_t tag,
               int32_t request) const {
    return pipesched_rt_send(context, data, bytes, peer, tag, request);
  }
  int32_t recv(void *data, int64_t bytes, int32_t peer, int32_t tag,
               int32_t request) const {
    return pipesched_rt_recv(context, data, bytes, peer, tag, request);
  }
  int32_t wait(int32_t request) const {
    return pipesched_rt_wait(context, request);
  }
  void begin(int32_t instruction) const {
    pipesched_rt_begin(context, instruction);
  }
  void end(int32_t instruction) const {
    pipesched_rt_end(context, instruction);
  }
};

/// All workers have 8 requests and 4 instructions unless a test changes it.
struct Sizes {
  int64_t workers = 2;
  int64_t persistent = 4096, arena = 4096, host = 4096;
  int64_t requests = 8, instructions = 4;
};

/// The program that runs; the runtime takes plain functions.
struct Program {
  Sizes sizes;
  std::function<int32_t(const Worker &)> step;
};
inline Program program;

inline int64_t sizeOf(int32_t /*worker*/, int32_t what) {
  const int64_t all[] = {program.sizes.workers,  program.sizes.persistent,
                         program.sizes.arena,    program.sizes.host,
                         program.sizes.requests, program.sizes.instructions};
  return all[what];
}

inline int32_t stepOf(int32_t worker, void *context, void *persistent,
                      void *arena, void *host, int64_t step) {
  return program.step({worker, context, static_cast<char *>(persistent),
                       static_cast<char *>(arena), static_cast<char *>(host),
                       step});
}

class World {
public:
  World(const Sizes &sizes, PipeschedMessages messages, bool blocking = false,
        bool log = false) {
    program.sizes = sizes;
    PipeschedWorldOptions options = {messages, blocking, log};
    world.reset(pipesched_rt_world_create(sizeOf, &options));
  }

  /// Runs `step` in all workers, for some steps.
  int32_t run(std::function<int32_t(const Worker &)> step, int64_t steps = 1,
              int64_t firstStep = 0) {
    program.step = std::move(step);
    return pipesched_rt_world_run(world.get(), stepOf, firstStep, steps);
  }

  std::string error() const { return pipesched_rt_world_error(world.get()); }
  PipeschedWorld *get() const { return world.get(); }

private:
  struct Destroy {
    void operator()(PipeschedWorld *world) const {
      pipesched_rt_world_destroy(world);
    }
  };
  std::unique_ptr<PipeschedWorld, Destroy> world;
};

/// Both ways to carry messages.
class BothMessages : public testing::TestWithParam<PipeschedMessages> {};

inline std::string
nameOfMessages(const testing::TestParamInfo<PipeschedMessages> &info) {
  return info.param == PIPESCHED_RT_BUFFERED ? "Buffered" : "Rendezvous";
}

} // namespace runtime_test

#endif // PIPESCHED_UNITTESTS_RUNTIME_PROGRAM_H
