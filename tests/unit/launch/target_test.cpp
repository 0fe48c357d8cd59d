#include "trainctl/launch/target.h"

#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Target : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"bin/python3", "bin/tool"}) {
      root_.write(name, "#!/bin/sh\n");
      fs::permissions(root_.path() / name, fs::perms::owner_all);
    }
    root_.write("train.py", "pass\n");
    root_.write("plain.txt", "words\n");
    root_.write("elf",
                "\x7f"
                "ELF and more");
  }
  std::string path(const std::string& name) const { return (root_.path() / name).string(); }
  LaunchTarget resolve(const Words& words, std::map<std::string, std::string> variables = {}) {
    variables.emplace("PATH", path("bin"));
    const auto environment = environment_of(variables);
    return resolve_target(parse_launch_command_line(words, environment), environment);
  }
  std::string refused(const Words& words, std::map<std::string, std::string> variables = {}) {
    return refusal([&] { resolve(words, variables); });
  }
  FakeRoot root_;
};

TEST_F(Target, AConfigBecomesRunWithItsFlags) {
  const LaunchTarget target = resolve({"--nproc", "2", "mini.json", "--set", "a=1"});
  EXPECT_EQ(target.kind, TargetKind::kConfig);
  EXPECT_THAT(target.command, ElementsAre("run", "mini.json", "--set", "a=1"));
  EXPECT_EQ(target.argv.size(), 5u);
  EXPECT_TRUE(target.is_trainctl());
}

TEST_F(Target, OurCommandsThatRanksShareAreStarted) {
  EXPECT_THAT(resolve({"run", "x"}).command, ElementsAre("run", "x"));
  EXPECT_THAT(refused({"eval", "x"}), HasSubstr("launch eval is not in this version"));
  EXPECT_THAT(refused({"config", "show"}), HasSubstr("run it by itself"));
  EXPECT_THAT(refused({"launch", "x"}), HasSubstr("'trainctl launch'"));
}

TEST_F(Target, AScriptRunsUnbufferedInThePythonOfThePath) {
  const LaunchTarget target = resolve({path("train.py"), "--lr", "1"});
  EXPECT_EQ(target.kind, TargetKind::kScript);
  EXPECT_THAT(target.argv,
              ElementsAre(EndsWith("bin/python3"), "-u", path("train.py"), "--lr", "1"));
}

TEST_F(Target, PythonExecNamesThePython) {
  EXPECT_THAT(resolve({path("train.py")}, {{"PYTHON_EXEC", path("bin/tool")}}).path,
              EndsWith("bin/tool"));
  EXPECT_THAT(refused({path("train.py")}, {{"PYTHON_EXEC", "/no/python"}}),
              HasSubstr("PYTHON_EXEC is '/no/python'"));
}

TEST_F(Target, AModuleIsGivenWithM) {
  EXPECT_THAT(resolve({"-m", "pkg.train", "x"}).argv,
              ElementsAre(EndsWith("python3"), "-u", "-m", "pkg.train", "x"));
  EXPECT_THAT(refused({"-m", "--", "tool"}), HasSubstr("a program follows"));
}

TEST_F(Target, AProgramIsFoundAsTheShellWould) {
  EXPECT_THAT(resolve({"--", "tool", "-x"}).argv, ElementsAre("tool", "-x"));
  EXPECT_THAT(resolve({"--", "tool"}).path, EndsWith("bin/tool"));
  EXPECT_EQ(resolve({"--no-python", path("bin/tool")}).path, path("bin/tool"));
}

TEST_F(Target, WhatCannotRunIsRefusedWithTheCure) {
  EXPECT_THAT(refused({}), HasSubstr("launch needs what to start"));
  EXPECT_THAT(refused({"--", "no-such"}), HasSubstr("'no-such' is no program"));
  EXPECT_THAT(refused({"--", path("plain.txt")}), HasSubstr("chmod +x"));
  EXPECT_THAT(refused({path("missing.py")}), AllOf(HasSubstr("missing.py"), HasSubstr("path")));
  EXPECT_THAT(refused({"rnu"}), HasSubstr("did you mean the command 'run'?"));
  EXPECT_THAT(refused({path("elf")}), HasSubstr("launch … -- " + path("elf")));
  EXPECT_THAT(refused({root_.path().string()}), HasSubstr("is a folder"));
}

TEST_F(Target, WithoutPythonAScriptIsNoMatterOfTheCommandLine) {
  EXPECT_THAT(refusal(
                  [&] {
                    resolve({path("train.py")}, {{"PATH", path("none")}});
                  },
                  ExitCode::kEnvironment),
              HasSubstr("PYTHON_EXEC"));
}

TEST(ShellQuote, IsReadBackByAShell) {
  EXPECT_EQ(shell_quote("a=b/c"), "a=b/c");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("it's $1"), "'it'\\''s $1'");
}

TEST_F(Target, WordsOfForeignProgramsMayHoldAnyBytes) {
  EXPECT_THAT(resolve({"--", "tool", "\xff"}).argv, ElementsAre("tool", "\xff"));
  EXPECT_EQ(resolve({path("train.py"), "\xff"}).argv.back(), "\xff");
  EXPECT_THAT(refused({"mini.json", "--set", "a=\xff"}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refused({"--", "no\xff"}), HasSubstr("'no\uFFFD' is no program"));
}

TEST_F(Target, AnEmptyNameIsRefusedAsSuch) {
  for (const Words& words : {Words{""}, Words{"--", ""}, Words{"-m", ""}, Words{"", "x"}})
    EXPECT_THAT(refused(words), HasSubstr("the name of what launch shall start is empty"));
}

}  // namespace
}  // namespace trainctl
