#include "launch/failure_report.h"

#include <cerrno>
#include <csignal>

#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

FailureFacts killed_by(int signal_number) {
  FailureFacts facts;
  facts.host = "host7";
  facts.rank = 5;
  facts.local_rank = 1;
  facts.pid = 4321;
  facts.end.signal = signal_number;
  facts.seconds = 3.2;
  facts.program = "train.py";
  return facts;
}

FailureFacts ended_with(int code) {
  FailureFacts facts = killed_by(0);
  facts.end.exit_code = code;
  return facts;
}

TEST(FailureReport, NamesRankHostProcessAndEnd) {
  EXPECT_THAT(failure_text(killed_by(SIGSEGV)),
              AllOf(HasSubstr("rank 5 on host7 was killed by SIGSEGV (signal 11)"),
                    HasSubstr("4321 (local rank 1)"), HasSubstr("3.2s after its start"),
                    HasSubstr("train.py"), HasSubstr("native code")));
  EXPECT_THAT(failure_text(ended_with(1)), HasSubstr("rank 5 on host7 ended with exit code 1"));
}

TEST(FailureReport, ARecordedErrorThatTheRankHasPrintedIsNotRepeated) {
  FailureFacts facts = ended_with(4);
  facts.error_file_text =
      R"({"message": {"message": "no such file", "extraInfo": {"timestamp": "1"}}})";
  facts.last_lines = {"step 3", "trainctl: error: no such file"};
  EXPECT_THAT(failure_text(facts), Not(HasSubstr("error it recorded")));
  facts.last_lines = {"step 3"};
  EXPECT_THAT(failure_text(facts), HasSubstr("error it recorded:\n    | no such file"));
}

TEST(FailureReport, TheOomKillerIsKnownByTheCountersOfTheControlGroup) {
  FailureFacts facts = killed_by(SIGKILL);
  facts.oom_before.control_group = 2;
  facts.oom_now.control_group = 3;
  facts.oom_seconds_before = 0.5;
  EXPECT_THAT(likely_cause(facts), AllOf(HasSubstr("out of memory"), HasSubstr("from 2 to 3"),
                                         HasSubstr("0.5s before")));
  facts.oom_now.control_group = 2;
  facts.oom_now.machine = 1;
  EXPECT_THAT(likely_cause(facts), HasSubstr("machine's oom_kill counter rose from 0 to 1"));
}

TEST(FailureReport, AKillWithoutOomCameFromOutside) {
  EXPECT_THAT(likely_cause(killed_by(SIGKILL)),
              AllOf(HasSubstr("killed from outside"), HasSubstr("did not move")));
}

TEST(FailureReport, AFullSharedMemoryExplainsABusError) {
  FailureFacts facts = killed_by(SIGBUS);
  facts.shm_size = 64 << 20;
  facts.shm_free = 0;
  EXPECT_THAT(likely_cause(facts), AllOf(HasSubstr("/dev/shm is full"), HasSubstr("--shm-size")));
  facts.shm_free = 60 << 20;
  EXPECT_THAT(likely_cause(facts), HasSubstr("64.0 MiB here"));
}

TEST(FailureReport, OurOwnExitCodesAreExplained) {
  FailureFacts facts = ended_with(4);
  EXPECT_THAT(likely_cause(facts), IsEmpty());
  facts.is_trainctl = true;
  EXPECT_THAT(likely_cause(facts), HasSubstr("data wrong"));
}

TEST(FailureReport, ARanksOwnErrorIsNotContradictedByItsCode) {
  FailureFacts facts = ended_with(2);
  facts.is_trainctl = true;
  facts.last_lines = {"step 1", "trainctl: error: cannot write 'runs/a': Permission denied"};
  EXPECT_THAT(likely_cause(facts), IsEmpty());
  EXPECT_THAT(failure_text(facts), AllOf(HasSubstr("Permission denied"), Not(HasSubstr("likely"))));
  facts.last_lines = {"step 1"};
  EXPECT_THAT(likely_cause(facts), HasSubstr("command line or config wrong"));
}

TEST(FailureReport, AShellsCodeForASignalIsReadBack) {
  EXPECT_THAT(likely_cause(ended_with(137)), HasSubstr("SIGKILL"));
  EXPECT_THAT(likely_cause(ended_with(127)), HasSubstr("no such command"));
}

TEST(FailureReport, LastLinesLogAndErrorFileAreShown) {
  FailureFacts facts = ended_with(1);
  facts.last_lines = {"step 1", "boom"};
  facts.log_files = {"/logs/0/stderr.log"};
  facts.error_file_text =
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback\n  at y\nValueError: x\n", "timestamp": "1"}}})";
  EXPECT_THAT(failure_text(facts),
              AllOf(HasSubstr("    | step 1\n    | boom"), HasSubstr("/logs/0/stderr.log"),
                    HasSubstr("    | Traceback\n    |   at y\n    | ValueError: x")));
}

TEST(FailureReport, WhatTheRankPrintedAndRecordedIsShownOnce) {
  FailureFacts facts = ended_with(1);
  facts.last_lines = {"Traceback", "ValueError: x"};
  facts.error_file_text = R"({"message": "ValueError: x"})";
  EXPECT_THAT(failure_text(facts), Not(HasSubstr("recorded")));
}

TEST(FailureReport, BrokenErrorFilesAreNoMatter) {
  for (const char* text :
       {"", "{", "[1]", R"({"message": 3})", R"({"message": {"extraInfo": []}})"})
    EXPECT_EQ(error_file_message(text), "") << text;
}

TEST(FailureReport, InvalidBytesOfTheRanksDoNotTravelOn) {
  FailureFacts facts = ended_with(1);
  facts.last_lines = {"\xff\xfe"};
  EXPECT_THAT(failure_text(facts), Not(HasSubstr("\xff")));
}

TEST(FailureReport, ProgramsThatDoNotStartSayWhy) {
  FailureFacts facts = ended_with(127);
  facts.end.exec_errno = ENOEXEC;
  EXPECT_THAT(failure_text(facts), AllOf(HasSubstr("could not be started"), HasSubstr("#!")));
}

TEST(Restarts, AreForWhatMayEndOtherwiseNextTime) {
  for (const int code : {1, 6, 74, 76, 137}) EXPECT_TRUE(worth_a_restart({code, 0, 0})) << code;
  for (const int code : {2, 3, 4, 5, 75}) EXPECT_FALSE(worth_a_restart({code, 0, 0})) << code;
  EXPECT_TRUE(worth_a_restart({0, SIGKILL, 0}));
  EXPECT_FALSE(worth_a_restart({127, 0, ENOENT}));
}

}  // namespace
}  // namespace trainctl
