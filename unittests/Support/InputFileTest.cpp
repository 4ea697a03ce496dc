//===- InputFileTest.cpp - Files that are read whole ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/Interrupt.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <csignal>
#include <fstream>
#include <memory>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace pipesched;
using testing::HasSubstr;

namespace {
class InputFile : public testing::Test {
protected:
  InputFile() {
    EXPECT_FALSE(
        llvm::sys::fs::createUniqueDirectory("pipesched-input", folder));
    fifo = (folder + "/fifo").str();
    EXPECT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  }
  ~InputFile() override { llvm::sys::fs::remove_directories(folder); }

  llvm::SmallString<128> folder;
  std::string fifo;
};
} // namespace

TEST_F(InputFile, ReadsFilesAndPipesToTheirEnd) {
  std::string text(300000, 'x');
  std::string file = (folder + "/file").str();
  std::ofstream(file) << text;
  EXPECT_EQ(llvm::cantFail(readWholeFile(file))->getBuffer(), text);
  std::thread writer([&] { std::ofstream(fifo) << text; });
  EXPECT_EQ(llvm::cantFail(readWholeFile(fifo))->getBuffer(), text);
  writer.join();
}

TEST_F(InputFile, StopsAtTheFlagOfTheCaller) {
  std::atomic<bool> interrupted = true;
  auto buffer = readWholeFile(fifo, &interrupted);
  EXPECT_EQ(llvm::toString(buffer.takeError()),
            "interrupted while reading '" + fifo + "'");
}

TEST_F(InputFile, StopsAtASignalThatTheHostHandles) {
  static std::atomic<int> numSignals = 0;
  auto before = std::signal(SIGINT, [](int) { ++numSignals; });
  std::atomic<bool> isDone = false;
  // Signals before the read only reach the host, so it needs several.
  std::thread sender([&] {
    while (!isDone) {
      std::raise(SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  auto buffer = readWholeFile(fifo);
  isDone = true;
  sender.join();
  EXPECT_THAT(llvm::toString(buffer.takeError()), HasSubstr("interrupted"));
  EXPECT_GT(numSignals, 0);
  std::signal(SIGINT, before);
}

TEST_F(InputFile, NamesWhatCannotBeRead) {
  std::string none = (folder + "/none").str();
  EXPECT_EQ(llvm::toString(readWholeFile(none).takeError()),
            "cannot read '" + none + "': No such file or directory");
  EXPECT_THAT(llvm::toString(readWholeFile(folder).takeError()),
              HasSubstr("directory"));
}

TEST_F(InputFile, ReadsNoDeviceWithoutEnd) {
  for (const char *device : {"/dev/zero", "/dev/full"})
    EXPECT_EQ(llvm::toString(readWholeFile(device).takeError()),
              std::string("cannot read '") + device +
                  "': it has more than the 64 MiB that are read of a device");
  EXPECT_EQ(llvm::cantFail(readWholeFile("/dev/null"))->getBufferSize(), 0u);
  EXPECT_GT(llvm::cantFail(readWholeFile("/proc/self/stat"))->getBufferSize(),
            0u);
}

TEST_F(InputFile, ReadsNoFileThatIsTooLong) {
  std::string file = (folder + "/long").str();
  std::ofstream(file) << "begin";
  ASSERT_EQ(truncate(file.c_str(), off_t(kMostFileBytes) + 1), 0);
  EXPECT_EQ(llvm::toString(readWholeFile(file).takeError()),
            "cannot read '" + file +
                "': it has more than the 2048 MiB that are read of a file");
}

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
