//===- MisuseTest.cpp - Calls that break a rule ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text names worker, instruction, the found and the expected value; all
// workers end.
//
//===----------------------------------------------------------------------===//

#include "Program.h"

using namespace runtime_test;

/// Runs a call in instruction 2 of worker 1, while worker 0 waits for a message
/// that never comes. Returns the text.
static std::string
misuse(const std::function<int32_t(const Worker &)> &call,
       PipeschedMessages messages = PIPESCHED_RT_RENDEZVOUS) {
  World world({}, messages);
  int32_t statusOfOther = 0, statusOfLater = 0;
  EXPECT_EQ(world.run([&](const Worker &w) {
    if (w.index == 0) {
      w.recv(w.arena, 8, 1, 99, 7);
      w.send(w.arena + 8, 8, 1, 98, 6); // says that it has started
      return statusOfOther = w.wait(7);
    }
    w.recv(w.arena + 8, 8, 0, 98, 6);
    w.wait(6);
    w.begin(2);
    int32_t status = call(w);
    statusOfLater = w.send(w.arena, 8, 0, 99, 6);
    return status;
  }),
            PIPESCHED_RT_MISUSE);
  EXPECT_EQ(statusOfOther, PIPESCHED_RT_MISUSE);
  EXPECT_EQ(statusOfLater, PIPESCHED_RT_MISUSE);
  return world.error();
}

TEST(Misuse, OfRequests) {
  EXPECT_EQ(misuse([](const Worker &w) { return w.send(w.arena, 4, 0, 0, 8); }),
            "worker 1, instruction 2: send with request 8, but the program has "
            "8 requests");
  EXPECT_EQ(misuse([](const Worker &w) { return w.wait(-1); }),
            "worker 1, instruction 2: wait with request -1, but the program "
            "has 8 requests");
  EXPECT_EQ(misuse([](const Worker &w) {
              w.send(w.arena, 4, 0, 1, 3);
              return w.recv(w.arena, 4, 0, 2, 3);
            }),
            "worker 1, instruction 2: recv with request 3, which is in use by "
            "a send of 4 bytes to worker 0 with tag 1 (started by instruction "
            "2); wait for it first");
  // An ended request is also in use until it is waited for.
  EXPECT_EQ(misuse(
                [](const Worker &w) {
                  w.send(w.arena, 4, 0, 1, 3);
                  return pipesched_rt_offload(w.context, w.host, w.arena, 4, 3);
                },
                PIPESCHED_RT_BUFFERED),
            "worker 1, instruction 2: offload with request 3, which is in use "
            "by a send of 4 bytes to worker 0 with tag 1 (started by "
            "instruction 2); wait for it first");
}

TEST(Misuse, OfPeersTagsAndSizes) {
  EXPECT_EQ(misuse([](const Worker &w) { return w.send(w.arena, 4, 2, 0, 0); }),
            "worker 1, instruction 2: send to worker 2, but the program has 2 "
            "workers");
  EXPECT_EQ(
      misuse([](const Worker &w) { return w.recv(w.arena, 4, -1, 0, 0); }),
      "worker 1, instruction 2: recv from worker -1, but the program has 2 "
      "workers");
  EXPECT_EQ(
      misuse([](const Worker &w) { return w.send(w.arena, 4, 0, -7, 0); }),
      "worker 1, instruction 2: send with tag -7, but tags are 0 or more");
  EXPECT_EQ(
      misuse([](const Worker &w) { return w.send(w.arena, -4, 0, 0, 0); }),
      "worker 1, instruction 2: send of -4 bytes");
  EXPECT_EQ(misuse([](const Worker &w) {
              return pipesched_rt_reload(w.context, w.arena, w.host, -1, 0);
            }),
            "worker 1, instruction 2: reload of -1 bytes");
}

TEST(Misuse, OfSizesThatDiffer) {
  auto send = [](const Worker &w) { return w.send(w.arena, 4, 0, 99, 0); };
  // Worker 0 waits for 8 bytes with tag 99; whoever comes second finds it.
  for (auto messages : {PIPESCHED_RT_RENDEZVOUS, PIPESCHED_RT_BUFFERED}) {
    World world({}, messages);
    EXPECT_EQ(world.run([&](const Worker &w) {
      if (w.index == 1)
        return send(w) + w.wait(0);
      w.begin(3);
      w.recv(w.arena, 8, 1, 99, 7);
      return w.wait(7);
    }),
              PIPESCHED_RT_MISUSE);
    const std::string recvSays =
        "worker 0, instruction 3: recv of 8 bytes from worker 1 with tag 99, "
        "but the send that matches has 4 bytes";
    const std::string sendSays =
        "worker 1: send of 4 bytes to worker 0 with tag 99, but the recv that "
        "matches has 8 bytes (instruction 3 of worker 0)";
    EXPECT_TRUE(world.error() == recvSays || world.error() == sendSays)
        << world.error();
  }
}

static int32_t sum(const Worker &w, int64_t count, int32_t type, int32_t group,
                   std::initializer_list<int32_t> members) {
  return pipesched_rt_all_reduce(w.context, w.arena, count, type, group,
                                 members.begin(),
                                 static_cast<int32_t>(members.size()), 0);
}

TEST(Misuse, OfAdditions) {
  auto add = [](int64_t count, int32_t type) {
    return misuse([=](const Worker &w) {
      return pipesched_rt_add(w.context, w.arena, w.host, count, type);
    });
  };
  EXPECT_EQ(add(4, 6), "worker 1, instruction 2: add of element type 6, which "
                       "does not exist");
  EXPECT_EQ(add(-4, 0), "worker 1, instruction 2: add of -4 elements, but "
                        "sizes are 0 or more");
}

TEST(Misuse, OfSums) {
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, 4, 6, 0, {0, 1}); }),
            "worker 1, instruction 2: all_reduce of element type 6, which does "
            "not exist");
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, 4, 0, -1, {0, 1}); }),
            "worker 1, instruction 2: all_reduce in group -1, but groups are 0 "
            "or more");
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, -4, 0, 0, {0, 1}); }),
            "worker 1, instruction 2: all_reduce of -4 elements");
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, 4, 0, 0, {1, 2}); }),
            "worker 1, instruction 2: all_reduce with worker 2, but the "
            "program has 2 workers");
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, 4, 0, 0, {0}); }),
            "worker 1, instruction 2: all_reduce in a group of 1 members "
            "without this worker");
  EXPECT_EQ(misuse([](const Worker &w) { return sum(w, 4, 0, 0, {1, 1}); }),
            "worker 1, instruction 2: all_reduce with worker 1 twice");
}

/// Both workers sum in group 4, and one of them finds the difference.
static std::string differ(const std::function<int32_t(const Worker &)> &call) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([&](const Worker &w) { return call(w) + w.wait(0); }),
            PIPESCHED_RT_MISUSE);
  return world.error().substr(world.error().find(':'));
}

TEST(Misuse, OfMembersThatDiffer) {
  EXPECT_EQ(differ([](const Worker &w) {
              return w.index ? sum(w, 4, 0, 4, {0, 1})
                             : sum(w, 4, 0, 4, {1, 0});
            }),
            ": all_reduce in group 4 with other members than another worker "
            "passed, or in another order");
  std::string text =
      differ([](const Worker &w) { return sum(w, 4 + w.index, 0, 4, {0, 1}); });
  EXPECT_TRUE(text == ": all_reduce of 4 elements of type 0 in group 4, but "
                      "another worker passes 5 of type 0" ||
              text == ": all_reduce of 5 elements of type 0 in group 4, but "
                      "another worker passes 4 of type 0")
      << text;
}

static int32_t broadcast(const Worker &w, int64_t bytes, int32_t root,
                         std::initializer_list<int32_t> members) {
  return pipesched_rt_broadcast(w.context, w.arena, bytes, root, 4,
                                members.begin(),
                                static_cast<int32_t>(members.size()), 0);
}

TEST(Misuse, OfBroadcasts) {
  EXPECT_EQ(misuse([](const Worker &w) { return broadcast(w, -8, 0, {0, 1}); }),
            "worker 1, instruction 2: broadcast of -8 bytes");
  EXPECT_EQ(misuse([](const Worker &w) { return broadcast(w, 8, 0, {1}); }),
            "worker 1, instruction 2: broadcast of worker 0 in group 4, of "
            "which it is no member");
  EXPECT_EQ(misuse([](const Worker &w) { return broadcast(w, 8, 0, {0}); }),
            "worker 1, instruction 2: broadcast in a group of 1 members "
            "without this worker");
  std::string text = differ([](const Worker &w) {
    return w.index ? broadcast(w, 8, 1, {0, 1}) : sum(w, 2, 0, 4, {0, 1});
  });
  EXPECT_TRUE(text == ": broadcast of 8 bytes of worker 1 in group 4, but "
                      "another worker passes all_reduce of 2 elements of type "
                      "0" ||
              text == ": all_reduce of 2 elements of type 0 in group 4, but "
                      "another worker passes broadcast of 8 bytes of worker 1")
      << text;
}

TEST(Misuse, OfInstructions) {
  EXPECT_EQ(misuse([](const Worker &w) {
              w.begin(4);
              return 1;
            }),
            "worker 1, instruction 2: begin of instruction 4, but the program "
            "has 4 instructions");
  EXPECT_EQ(misuse([](const Worker &w) {
              w.end(-1);
              return 1;
            }),
            "worker 1, instruction 2: end of instruction -1, but the program "
            "has 4 instructions");
}

TEST(Misuse, OfTheProgramItself) {
  World fails({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(fails.run([](const Worker &w) {
    if (w.index == 0)
      return pipesched_rt_fail(w.context, "the loss is not a number");
    w.recv(w.arena, 4, 0, 0, 0);
    return w.wait(0);
  }),
            PIPESCHED_RT_FAILED);
  EXPECT_EQ(fails.error(), "worker 0: the loss is not a number");
  World index({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(index.run([](const Worker &w) {
    if (w.index == 1)
      return pipesched_rt_fail_index(w.context, "row", -1, 4);
    w.recv(w.arena, 4, 1, 0, 0);
    return w.wait(0);
  }),
            PIPESCHED_RT_FAILED);
  EXPECT_EQ(index.error(), "worker 1: row: index -1, expected 0 to 3");
  World empty({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(empty.run([](const Worker &w) {
    return w.index == 0 ? pipesched_rt_fail_index(w.context, "row", 2, 0) : 0;
  }),
            PIPESCHED_RT_FAILED);
  EXPECT_EQ(empty.error(), "worker 0: row: index 2, but there are no elements");
  World status({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(status.run([](const Worker &w) {
    return w.index == 1 ? pipesched_rt_fail_status(w.context, "kernel", -3) : 0;
  }),
            PIPESCHED_RT_FAILED);
  EXPECT_EQ(status.error(), "worker 1: kernel returned -3");
  World returns({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(
      returns.run(
          [](const Worker &w) { return w.index == 1 && w.step == 12 ? 77 : 0; },
          5, 10),
      PIPESCHED_RT_FAILED);
  EXPECT_EQ(returns.error(), "worker 1: step 12 returned 77");
  // A world that has failed runs nothing more.
  bool hasRun = false;
  EXPECT_EQ(returns.run([&](const Worker &) {
    hasRun = true;
    return 0;
  }),
            PIPESCHED_RT_FAILED);
  EXPECT_FALSE(hasRun);
}
