//===- ProfileTextTest.cpp - Exact decimals and their errors --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times are read digit by digit; printed times can be read back.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/ProfileText.h"
#include "gtest/gtest.h"

using namespace pipesched;

static std::string timeError(llvm::StringRef text) {
  llvm::Expected<int64_t> ps = parseTime(text);
  return ps ? "" : llvm::toString(ps.takeError());
}

static std::string profileError(llvm::StringRef text) {
  llvm::Expected<Profile> profile = parseProfile(text);
  return profile ? "" : llvm::toString(profile.takeError());
}

static std::string roundTrip(llvm::StringRef text) {
  return printProfile(llvm::cantFail(parseProfile(text)));
}

TEST(Times, AreExact) {
  EXPECT_EQ(llvm::cantFail(parseTime("18.522ms")), 18522000000);
  EXPECT_EQ(llvm::cantFail(parseTime("0.601ms")), 601000000);
  EXPECT_EQ(llvm::cantFail(parseTime("7ps")), 7);
  EXPECT_EQ(llvm::cantFail(parseTime("0.001ns")), 1);
  EXPECT_EQ(llvm::cantFail(parseTime("1.50000 us")), 1500000);
  EXPECT_EQ(llvm::cantFail(parseTime("0s")), 0);
  EXPECT_EQ(llvm::cantFail(parseTime("9223372.036854775807s")),
            std::numeric_limits<int64_t>::max());
}

TEST(Times, PrintInTheLargestUnit) {
  EXPECT_EQ(printTime(0), "0ps");
  EXPECT_EQ(printTime(999), "999ps");
  EXPECT_EQ(printTime(18522000000), "18.522ms");
  EXPECT_EQ(printTime(601000000), "601us");
  EXPECT_EQ(printTime(1000000000001), "1.000000000001s");
  for (int64_t ps : {int64_t(1), int64_t(1234567890123456789),
                     std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(llvm::cantFail(parseTime(printTime(ps))), ps);
}

TEST(ProfileText, ReadsListsAndSpaces) {
  Profile profile = llvm::cantFail(
      parseProfile(" F = [ 1ns , 2ns ] , FB=3ns,comm=4ns, send=5ns "));
  EXPECT_EQ(profile.phasePs[Phase::Forward],
            (std::vector<int64_t>{1000, 2000}));
  EXPECT_EQ(profile.overlappedPs, (std::vector<int64_t>{3000}));
  EXPECT_EQ(profile.commPs, (std::vector<int64_t>{4000}));
  EXPECT_EQ(profile.sendPs, (std::vector<int64_t>{5000}));
}

TEST(ProfileText, ReadsTimesByMicrobatch) {
  Profile profile = llvm::cantFail(parseProfile(
      "B=1ns, microbatches.F = [1ns, 2ns], microbatches.comm=[ [3ns] ,[4ns]]"));
  EXPECT_EQ(profile.microbatches.phasePs[Phase::Forward],
            (MicrobatchTimes{{1000, 2000}}));
  EXPECT_EQ(profile.microbatches.commPs, (MicrobatchTimes{{3000}, {4000}}));
  EXPECT_TRUE(profile.variesByMicrobatch());
  EXPECT_FALSE(llvm::cantFail(parseProfile("B=1ns")).variesByMicrobatch());
  EXPECT_EQ(printProfile(profile),
            "B=1ns,microbatches.F=[1ns,2ns],microbatches.comm=[[3ns],[4ns]]");
  EXPECT_EQ(profileError("microbatches.F=[1ns"),
            "microbatches.F: expected ']', found the end");
  EXPECT_EQ(profileError("microbatches.O=[1ns]"),
            "unknown name 'microbatches.O' (known: F, B, I, W, R, D, U, S, T, "
            "X, Y, Z, E, A, C, V, comm, send)");
  EXPECT_EQ(profileError("microbatches.send=[1ns],send=2ns"),
            "'send' is given twice: microbatches.send has its times by "
            "microbatch");
}

TEST(ProfileText, PrintsCanonically) {
  EXPECT_EQ(roundTrip("comm=0.601ms,W=9.337ms, I=18.086ms ,F=18.522ms"),
            "F=18.522ms,I=18.086ms,W=9.337ms,comm=601us");
  EXPECT_EQ(roundTrip("B=[1ms,2ms],R=0ps,D=1s,U=2s,O=3s,G=4s"),
            "B=[1ms,2ms],R=0ps,D=1s,U=2s,O=3s,G=4s");
}

TEST(ProfileText, QuotesWhatIsWrong) {
  EXPECT_EQ(profileError(""), "expected times such as F=1ms, found nothing");
  EXPECT_EQ(profileError("Q=1ms"),
            "unknown name 'Q' (known: F, B, I, W, R, D, U, O, G, S, T, X, Y, "
            "Z, E, A, C, V, FB, comm and 1 more)");
  EXPECT_EQ(profileError("F=1ms,coms=2ms"),
            "unknown name 'coms', the closest is 'comm'");
  EXPECT_EQ(profileError("F=1ms,F=2ms"), "'F' is given twice");
  EXPECT_EQ(profileError("F 1ms"), "expected '=' after 'F', found '1ms'");
  EXPECT_EQ(
      profileError("F=1ms;B=2ms"),
      "F: expected a unit (ps, ns, us, ms or s) after '1', found 'ms;B=2ms'");
  EXPECT_EQ(profileError("F=[1ms,2ms"), "F: expected ']', found the end");
  EXPECT_EQ(profileError("F=1ms,"), "expected a name such as F, found the end");
  EXPECT_EQ(profileError("F=[]"), "F: expected a time such as 1.5ms, found ''");
  EXPECT_EQ(profileError("F=[1ms]2"), "expected ',' between times, found '2'");
  EXPECT_EQ(profileError("F=-1ms"),
            "F: expected a time of at least 0, found '-1ms'");
}
