//===- MessagesTest.cpp - Programs under message semantics -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The answer of verifyMessages is what happens when processes run the program,
// and each counterexample is a cycle of waits under these semantics. Schedules
// finish or deadlock as their families are known to.
//
//===----------------------------------------------------------------------===//

#include "../Support/RunProcesses.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <random>

using namespace pipesched;

static constexpr MessageSemantics kUnbounded = MessageSemantics::Unbounded,
                                  kFifo = MessageSemantics::Fifo,
                                  kRendezvous = MessageSemantics::Rendezvous,
                                  kBatched = MessageSemantics::Batched;
static constexpr MessageSemantics kAllSemantics[] = {kUnbounded, kFifo,
                                                     kRendezvous, kBatched};
static constexpr ReceivePlacement kArrival = ReceivePlacement::Arrival,
                                  kConsumer = ReceivePlacement::Consumer;

//===----------------------------------------------------------------------===//
// The checks
//===----------------------------------------------------------------------===//

static int64_t rowOf(const Program &program, uint32_t instruction) {
  return llvm::upper_bound(program.rowBegins, instruction) -
         program.rowBegins.begin() - 1;
}

/// Whether two calls of a row are issued together.
static bool inOneBatch(const Program &program, uint32_t first,
                       uint32_t second) {
  int64_t row = rowOf(program, first);
  Processes processes(program, kBatched);
  uint32_t begin = program.rowBegins[row], end = program.rowBegins[row + 1];
  while (begin <= first) {
    bool isCall =
        program.partner[begin] != Program::kNone &&
        program.instructions[begin].kind != InstructionKind::AllReduce;
    uint32_t batchEnd = isCall ? processes.batchEnd(begin, end) : begin + 1;
    if (first < batchEnd)
      return second < batchEnd;
    begin = batchEnd;
  }
  return false;
}

/// The waiter really cannot continue before the awaited.
static void expectWait(const Program &program, const Wait &wait,
                       MessageSemantics semantics) {
  const Instruction &waiter = program.instructions[wait.waiter];
  const Instruction &awaited = program.instructions[wait.awaited];
  bool isBuffered = semantics == kUnbounded || semantics == kFifo;
  switch (wait.reason) {
  case WaitReason::Row:
    EXPECT_EQ(rowOf(program, wait.waiter), rowOf(program, wait.awaited));
    EXPECT_LT(wait.awaited, wait.waiter);
    EXPECT_FALSE(isBuffered && awaited.kind == InstructionKind::Send);
    EXPECT_FALSE(semantics == kBatched &&
                 inOneBatch(program, wait.awaited, wait.waiter));
    return;
  case WaitReason::Need:
    EXPECT_FALSE(isBuffered && waiter.kind == InstructionKind::Send);
    if (waiter.kind != InstructionKind::AllReduce)
      EXPECT_EQ(program.partner[wait.waiter], wait.awaited);
    else
      EXPECT_EQ(awaited.kind, InstructionKind::AllReduce);
    return;
  case WaitReason::Channel:
    EXPECT_EQ(semantics, kFifo);
    EXPECT_EQ(waiter.kind, InstructionKind::Recv);
    EXPECT_EQ(waiter.peer, awaited.peer);
    EXPECT_EQ(rowOf(program, wait.waiter), rowOf(program, wait.awaited));
    EXPECT_LT(program.partner[wait.awaited], program.partner[wait.waiter]);
    return;
  case WaitReason::Pair:
  case WaitReason::Queue:
    ADD_FAILURE() << "a process has no queues";
  }
}

/// Returns the answer, after comparing it with a run and checking its cycle.
static bool finishes(const Program &program, MessageSemantics semantics) {
  bool result = true;
  llvm::handleAllErrors(
      verifyMessages(program, semantics), [&](const DeadlockError &error) {
        result = false;
        llvm::ArrayRef<Wait> cycle = error.getDeadlock().cycle;
        EXPECT_GE(cycle.size(), 2u);
        for (size_t i = 0; i < cycle.size(); ++i) {
          EXPECT_EQ(cycle[i].awaited, cycle[(i + 1) % cycle.size()].waiter);
          expectWait(program, cycle[i], semantics);
        }
      });
  EXPECT_EQ(result, Processes(program, semantics).finish())
      << enumName(semantics).str();
  return result;
}

static bool finishes(const Table &table, MessageSemantics semantics,
                     ReceivePlacement placement) {
  return finishes(llvm::cantFail(lowerTable(table.view(), placement)),
                  semantics);
}

static std::string deadlockText(const Program &program,
                                MessageSemantics semantics) {
  finishes(program, semantics);
  return llvm::toString(verifyMessages(program, semantics));
}

//===----------------------------------------------------------------------===//
// Hand-written programs
//===----------------------------------------------------------------------===//

namespace {
/// "s0F0>1" sends 0F0 to worker 1, "r0F0<0" receives it from worker 0, "g0G0"
/// is an all-reduce with all others of that name, "d0D0" and "u0U0" are copies,
/// "w0d0" is a wait; anything else is a compute. Numbers after commas are
/// operands, counted back from the instruction: "s0F0>1,1".
class ProgramText {
public:
  explicit ProgramText(std::initializer_list<llvm::StringRef> rows) {
    program.operandBegins.push_back(0);
    program.rowBegins.push_back(0);
    for (llvm::StringRef row : rows) {
      llvm::SmallVector<llvm::StringRef> words;
      llvm::SplitString(row, words);
      for (llvm::StringRef word : words)
        add(word);
      program.rowBegins.push_back(program.instructions.size());
    }
    pair();
  }

  operator const Program &() const { return program; }

private:
  static InstructionKind consumeKind(llvm::StringRef &word) {
    const std::pair<char, InstructionKind> kinds[] = {
        {'s', InstructionKind::Send},      {'r', InstructionKind::Recv},
        {'g', InstructionKind::AllReduce}, {'d', InstructionKind::Offload},
        {'u', InstructionKind::Reload},    {'w', InstructionKind::Wait}};
    for (auto [letter, kind] : kinds)
      if (word.consume_front(llvm::StringRef(&letter, 1)))
        return kind;
    return InstructionKind::Compute;
  }

  void add(llvm::StringRef word) {
    Instruction instruction;
    instruction.kind = consumeKind(word);
    llvm::StringRef operands;
    std::tie(word, operands) = word.split(',');
    auto [cell, peer] = word.split(word.contains('>') ? '>' : '<');
    instruction.cell = parseCell(cell);
    if (!peer.empty())
      EXPECT_FALSE(peer.getAsInteger(10, instruction.peer));
    for (llvm::StringRef back : llvm::split(operands, ',')) {
      uint32_t distance = 0;
      if (!back.getAsInteger(10, distance))
        program.operands.push_back(program.instructions.size() - distance);
    }
    program.instructions.push_back(instruction);
    program.operandBegins.push_back(program.operands.size());
  }

  /// Cells name messages and groups.
  void pair() {
    size_t size = program.instructions.size();
    program.partner.assign(size, Program::kNone);
    for (uint32_t i = 0; i < size; ++i) {
      const Instruction &instruction = program.instructions[i];
      bool isGroup = instruction.kind == InstructionKind::AllReduce;
      if (!isGroup && instruction.peer < 0)
        continue;
      for (uint32_t step = 1; step < size; ++step) {
        uint32_t other = (i + step) % size;
        const Instruction &candidate = program.instructions[other];
        if (candidate.cell != instruction.cell ||
            (isGroup ? candidate.kind != InstructionKind::AllReduce
                     : candidate.peer != rowOf(program, i) ||
                           instruction.peer != rowOf(program, other)))
          continue;
        program.partner[i] = other;
        break;
      }
    }
  }

  Program program;
};
} // namespace

/// NVIDIA/nccl issue 479: both ranks send, then receive.
TEST(Messages, ExchangeStopsInRendezvousAlone) {
  ProgramText program({"s0F0>1 r1F0<1", "s1F0>0 r0F0<0"});
  EXPECT_TRUE(finishes(program, kUnbounded));
  EXPECT_TRUE(finishes(program, kFifo));
  EXPECT_TRUE(finishes(program, kBatched));
  EXPECT_EQ(deadlockText(program, kRendezvous),
            "deadlock: a cycle of 4 waits\n"
            "  send 0F0 to 1 on worker 0 waits for recv 0F0 from 0 on worker 1 "
            "(its message)\n"
            "  recv 0F0 from 0 stands behind send 1F0 to 0 in the row of "
            "worker 1\n"
            "  send 1F0 to 0 on worker 1 waits for recv 1F0 from 1 on worker 0 "
            "(its message)\n"
            "  recv 1F0 from 1 stands behind send 0F0 to 1 in the row of "
            "worker 0");
}

TEST(Messages, ReceiversFirstFinishInBatchesAlone) {
  ProgramText program({"r1F0<1 s0F0>1", "r0F0<0 s1F0>0"});
  EXPECT_TRUE(finishes(program, kBatched));
  EXPECT_FALSE(finishes(program, kUnbounded));
  EXPECT_FALSE(finishes(program, kFifo));
  EXPECT_FALSE(finishes(program, kRendezvous));
}

TEST(Messages, CrossingMessagesNeedTags) {
  ProgramText program({"s0F0>1 s0F1>1", "r0F1<0 r0F0<0"});
  EXPECT_TRUE(finishes(program, kUnbounded));
  EXPECT_TRUE(finishes(program, kBatched));
  EXPECT_FALSE(finishes(program, kRendezvous));
  EXPECT_EQ(deadlockText(program, kFifo),
            "deadlock: a cycle of 2 waits\n"
            "  recv 0F0 from 0 stands behind recv 0F1 from 0 in the row of "
            "worker 1\n"
            "  recv 0F1 from 0 on worker 1 waits for recv 0F0 from 0 on worker "
            "1 (sent before it)");
}

TEST(Messages, ChannelsHaveAnOrderOfTheirOwn) {
  // 0F0 and 0F1 go to different workers, 0F0 and 2F0 come from different ones.
  EXPECT_TRUE(finishes(
      ProgramText({"s0F0>1 s0F1>2", "r2F0<2 r0F0<0", "r0F1<0 s2F0>1"}), kFifo));
}

TEST(Messages, ComputesEndABatchAndCopiesDoNot) {
  EXPECT_FALSE(finishes(ProgramText({"r1F0<1 0F0 s0F0>1", "r0F0<0 1F0 s1F0>0"}),
                        kBatched));
  EXPECT_TRUE(
      finishes(ProgramText({"r1F0<1 d0D0 w0d0,1 s0F0>1", "r0F0<0 u1U0 s1F0>0"}),
               kBatched));
}

TEST(Messages, ABatchEndsBeforeWhatNeedsIt) {
  // Each send waits for the receive, directly or through a copy.
  EXPECT_FALSE(
      finishes(ProgramText({"r1F0<1 s0F0>1,1", "r0F0<0 s1F0>0,1"}), kBatched));
  EXPECT_FALSE(finishes(
      ProgramText({"r1F0<1 d0D0,1 s0F0>1,1", "r0F0<0 s1F0>0,1"}), kBatched));
  // A wait holds the next compute only.
  EXPECT_TRUE(finishes(
      ProgramText({"r1F0<1 w0d0,1 s0F0>1 0F0", "r0F0<0 s1F0>0,1"}), kBatched));
}

TEST(Messages, BatchesNeedNotMatchOneToOne) {
  // Worker 0 sends three messages at once, which worker 1 receives one by one.
  EXPECT_TRUE(finishes(
      ProgramText({"s0F0>1 s0F1>1 s0F2>1", "r0F0<0 1F0 r0F1<0 1F1 r0F2<0"}),
      kBatched));
  // The batch of worker 1 ends when 0F1 has arrived, which is sent behind 1F0.
  EXPECT_FALSE(finishes(
      ProgramText({"s0F0>1 r1F0<1 0F5 s0F1>1", "r0F0<0 r0F1<0 1F9 s1F0>0"}),
      kBatched));
}

TEST(Messages, AllReducesHoldTheirGroup) {
  EXPECT_TRUE(finishes(ProgramText({"g0G0 g1G0", "g0G0", "g1G0"}), kUnbounded));
  ProgramText program({"g0G0 g1G0", "g1G0 g0G0"});
  for (MessageSemantics semantics : kAllSemantics)
    EXPECT_EQ(deadlockText(program, semantics),
              "deadlock: a cycle of 4 waits\n"
              "  all_reduce 0G0 on worker 0 waits for all_reduce 0G0 on worker "
              "1 (its group)\n"
              "  all_reduce 0G0 stands behind all_reduce 1G0 in the row of "
              "worker 1\n"
              "  all_reduce 1G0 on worker 1 waits for all_reduce 1G0 on worker "
              "0 (its group)\n"
              "  all_reduce 1G0 stands behind all_reduce 0G0 in the row of "
              "worker 0");
  // A batch does not extend across an all-reduce.
  EXPECT_FALSE(finishes(
      ProgramText({"r1F0<1 g0G0 s0F0>1", "r0F0<0 s1F0>0 g0G0"}), kBatched));
}

/// Workers 1 and 2 each meet worker 0 before or after a group of their own: no
/// order satisfies both, unless the two of worker 0 belong to one cell.
TEST(Messages, AllReducesOfACellBeginTogether) {
  Program program = ProgramText({"g3G0 g1G0", "g1G0 g2G0", "g2G0 g3G0"});
  for (MessageSemantics semantics : kAllSemantics)
    EXPECT_FALSE(finishes(program, semantics));
  for (uint32_t member : {0, 1})
    program.instructions[member].cell = parseCell("0G0");
  for (MessageSemantics semantics : kAllSemantics)
    EXPECT_TRUE(finishes(program, semantics));
}

TEST(Messages, EmptyProgramsFinish) {
  for (MessageSemantics semantics : kAllSemantics)
    EXPECT_TRUE(finishes(ProgramText({"", "0F0 0B0"}), semantics));
}

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

namespace {
/// Rows of messages, all-reduces, computes and copies in any order.
class RandomProgram {
public:
  explicit RandomProgram(uint32_t seed) : random(seed) {
    unsigned numWorkers = 2 + random() % 3;
    rows.resize(numWorkers);
    for (unsigned i = 0, e = 1 + random() % 8; i < e; ++i)
      addMessage(i);
    addAllReduces();
    for (std::vector<Item> &row : rows)
      addLocalWork(row);
    flatten();
  }

  const Program &get() const { return program; }

private:
  struct Item {
    Instruction instruction;
    uint32_t group; ///< shared by partners, unless 0
  };

  /// Inserts mostly at the end, so that many programs finish.
  void insert(std::vector<Item> &row, Item item) {
    size_t back = random() % 3 ? 0 : random() % (row.size() + 1);
    row.insert(row.end() - back, item);
  }
  void addMessage(uint32_t number) {
    int32_t source = random() % rows.size();
    int32_t target = (source + 1 + random() % (rows.size() - 1)) % rows.size();
    Cell cell(source, Phase::Forward, number);
    insert(rows[source], {{cell, target, InstructionKind::Send}, number + 1});
    insert(rows[target], {{cell, source, InstructionKind::Recv}, number + 1});
  }
  /// All-reduces of all workers or of all but one, at one or two cells:
  /// neighbours of one cell begin together.
  void addAllReduces() {
    for (unsigned i = 0, e = random() % 3; i < e; ++i) {
      size_t absent = random() % (2 * rows.size());
      Cell cell(random() % 2, Phase::AllReduce, 0);
      for (auto [worker, row] : llvm::enumerate(rows))
        if (worker != absent)
          insert(row, {{cell, -1, InstructionKind::AllReduce}, 100 + i});
    }
  }
  void addLocalWork(std::vector<Item> &row) {
    const InstructionKind kinds[] = {
        InstructionKind::Compute, InstructionKind::Offload,
        InstructionKind::Reload, InstructionKind::Wait};
    for (unsigned i = 0, e = random() % 3; i < e; ++i)
      insert(row, {{Cell(), -1, kinds[random() % 4]}, 0});
  }

  void flatten() {
    std::map<uint32_t, std::vector<uint32_t>> groups;
    program.rowBegins.push_back(0);
    program.operandBegins.push_back(0);
    for (const std::vector<Item> &row : rows) {
      for (const Item &item : row) {
        uint32_t number = program.instructions.size();
        program.instructions.push_back(item.instruction);
        if (item.group)
          groups[item.group].push_back(number);
        addOperand(number);
      }
      program.rowBegins.push_back(program.instructions.size());
    }
    program.partner.assign(program.instructions.size(), Program::kNone);
    for (auto &[group, members] : groups)
      for (size_t i = 0; i < members.size(); ++i)
        program.partner[members[i]] = members[(i + 1) % members.size()];
  }
  void addOperand(uint32_t number) {
    uint32_t position = number - program.rowBegins.back();
    uint32_t operand = number - 1;
    if (position && random() % 4 == 0 &&
        program.instructions[operand].kind != InstructionKind::Wait)
      program.operands.push_back(operand);
    program.operandBegins.push_back(program.operands.size());
  }

  std::mt19937 random;
  std::vector<std::vector<Item>> rows;
  Program program;
};
} // namespace

TEST(Messages, AgreesWithProcessesOnRandomPrograms) {
  constexpr int numPrograms = 20000;
  std::map<MessageSemantics, int> finished;
  for (int seed = 0; seed < numPrograms; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram random(seed);
    for (MessageSemantics semantics : kAllSemantics)
      finished[semantics] += finishes(random.get(), semantics);
    if (HasFailure())
      return;
  }
  // Both answers must be common.
  for (MessageSemantics semantics : kAllSemantics) {
    EXPECT_GT(finished[semantics], numPrograms / 10);
    EXPECT_LT(finished[semantics], numPrograms * 9 / 10);
  }
}

TEST(Messages, RendezvousIsTheStrictest) {
  for (int seed = 0; seed < 20000; ++seed) {
    RandomProgram random(seed);
    auto isProven = [&](MessageSemantics semantics) {
      return !errorToBool(verifyMessages(random.get(), semantics));
    };
    if (isProven(kRendezvous)) {
      EXPECT_TRUE(isProven(kFifo) && isProven(kBatched)) << seed;
    }
    if (isProven(kFifo)) {
      EXPECT_TRUE(isProven(kUnbounded)) << seed;
    }
  }
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Calls `check(D, N)` for D <= 6, N <= 10.
template <typename Check>
static void forSizes(Check &&check) {
  for (int64_t workers = 1; workers <= 6; ++workers)
    for (int64_t microbatches = 1; microbatches <= 10; ++microbatches) {
      SCOPED_TRACE(testing::Message()
                   << "D=" << workers << " N=" << microbatches);
      check(workers, microbatches);
    }
}

/// At any time all messages go one way.
TEST(Messages, GPipeFinishesAlways) {
  forSizes([](int64_t workers, int64_t microbatches) {
    Table table =
        llvm::cantFail(generateGPipe(makeLinear(workers, microbatches)));
    for (ReceivePlacement placement : {kArrival, kConsumer})
      for (MessageSemantics semantics : kAllSemantics)
        EXPECT_TRUE(finishes(table, semantics, placement));
  });
}

/// In the steady state of 1F1B neighbours exchange an activation and a
/// gradient, and both send first.
TEST(Messages, OneFOneBNeedsBuffersOrBatches) {
  forSizes([](int64_t workers, int64_t microbatches) {
    Table table =
        llvm::cantFail(generate1F1B(makeLinear(workers, microbatches)));
    for (ReceivePlacement placement : {kArrival, kConsumer}) {
      EXPECT_TRUE(finishes(table, kUnbounded, placement));
      EXPECT_TRUE(finishes(table, kFifo, placement));
      EXPECT_TRUE(finishes(table, kBatched, placement));
      int64_t hasSteadyState = placement == kArrival ? 3 : 2;
      EXPECT_EQ(finishes(table, kRendezvous, placement),
                workers == 1 || microbatches < hasSteadyState);
    }
  });
}

/// DualPipe exchanges in both directions at once: with single sends it
/// deadlocks. It is safe in batches if receives are posted when the message is
/// due, not when it is needed.
TEST(Messages, DualPipeNeedsBatches) {
  for (int64_t workers = 2; workers <= 8; workers += 2)
    for (int64_t microbatches = 2 * workers; microbatches <= 20;
         microbatches += 2) {
      SCOPED_TRACE(testing::Message()
                   << "D=" << workers << " N=" << microbatches);
      Table table =
          llvm::cantFail(generateDualPipe(makeLinear(workers, microbatches)));
      for (ReceivePlacement placement : {kArrival, kConsumer})
        EXPECT_FALSE(finishes(table, kRendezvous, placement));
      EXPECT_TRUE(finishes(table, kBatched, kArrival));
      EXPECT_FALSE(finishes(table, kBatched, kConsumer));
    }
}

/// pytorch/pytorch issue 172668: two ranks, four stages, each receive right
/// before the compute that needs it. Rank 0 stands in `0SEND_F1, 2RECV_F0`,
/// rank 1 in `1SEND_F0, 1RECV_F1`.
TEST(Messages, InterleavedWithLateReceivesStops) {
  InterleavedOptions options;
  options.chunks = 2;
  Table table =
      llvm::cantFail(generateInterleaved1F1B(makeLinear(2, 4), options));
  Program program = llvm::cantFail(lowerTable(table.view(), kConsumer));
  EXPECT_EQ(
      deadlockText(program, kRendezvous),
      "deadlock: a cycle of 4 waits\n"
      "  send 0F1 to 1 on worker 0 waits for recv 0F1 from 0 on worker 1 "
      "(its message)\n"
      "  recv 0F1 from 0 stands behind send 1F0 to 0 in the row of worker "
      "1\n"
      "  send 1F0 to 0 on worker 1 waits for recv 1F0 from 1 on worker 0 "
      "(its message)\n"
      "  recv 1F0 from 1 stands behind send 0F1 to 1 in the row of worker "
      "0");
  EXPECT_TRUE(finishes(table, kFifo, kConsumer));
  EXPECT_TRUE(finishes(table, kBatched, kArrival));
}

namespace {
struct Family {
  const char *name;
  llvm::Expected<Table> (*generate)(const Placement &placement);
};
} // namespace

template <typename Options,
          llvm::Expected<Table> generate(const Placement &, const Options &)>
static llvm::Expected<Table> withDefaults(const Placement &placement) {
  return generate(placement, Options());
}

static llvm::Expected<Table> interleavedTwice(const Placement &placement) {
  InterleavedOptions options;
  options.chunks = 2;
  return generateInterleaved1F1B(placement, options);
}

static llvm::Expected<Table> loopedTwice(const Placement &placement) {
  LoopOptions options;
  options.chunks = 2;
  return generateLoopedBFS(placement, options);
}

static const Family kFamilies[] = {
    {"gpipe", withDefaults<GeneratorOptions, generateGPipe>},
    {"1f1b", withDefaults<GeneratorOptions, generate1F1B>},
    {"eager-1f1b", withDefaults<GeneratorOptions, generateEager1F1B>},
    {"zb-h1", withDefaults<GeneratorOptions, generateZBH1>},
    {"zb-h2", withDefaults<GeneratorOptions, generateZBH2>},
    {"interleaved-1f1b", interleavedTwice},
    {"looped-bfs", loopedTwice},
    {"chimera", withDefaults<ChimeraOptions, generateChimera>},
    {"zb-v", withDefaults<GeneratorOptions, generateZBV>},
    {"v-half", withDefaults<GeneratorOptions, generateVHalf>},
    {"dualpipe-v", withDefaults<GeneratorOptions, generateDualPipeV>},
    {"dualpipe", withDefaults<GeneratorOptions, generateDualPipe>},
    {"hanayo", withDefaults<HanayoOptions, generateHanayo>}};

/// Receives at arrival stand in the slot in which their message is sent, so
/// every wait except that of a blocking send leads to an earlier slot. At the
/// consumer this holds for unbounded buffers only.
TEST(Messages, ReceivesAtArrivalFinishUnlessSendsBlock) {
  for (const Family &family : kFamilies) {
    SCOPED_TRACE(family.name);
    int numTables = 0;
    forSizes([&](int64_t workers, int64_t microbatches) {
      llvm::Expected<Table> table =
          family.generate(makeLinear(workers, microbatches));
      if (!table)
        return llvm::consumeError(table.takeError());
      ++numTables;
      EXPECT_TRUE(finishes(*table, kUnbounded, kArrival));
      EXPECT_TRUE(finishes(*table, kFifo, kArrival));
      EXPECT_TRUE(finishes(*table, kBatched, kArrival));
      EXPECT_TRUE(finishes(*table, kUnbounded, kConsumer));
    });
    EXPECT_GT(numTables, 5);
  }
}

/// Long rows need neither a deep call stack nor quadratic time.
TEST(Messages, LongRows) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(4, 50000)));
  Program program = llvm::cantFail(lowerTable(table.view(), kArrival));
  EXPECT_FALSE(errorToBool(verifyMessages(program, kBatched)));
  llvm::Error error = verifyMessages(program, kRendezvous);
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
}
