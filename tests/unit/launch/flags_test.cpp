#include "launch/flag_table.h"
#include "launch_fixtures.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

LaunchCommandLine parse(const Words& words, std::map<std::string, std::string> variables = {}) {
  return parse_launch_command_line(words, environment_of(std::move(variables)));
}

std::string refused(const Words& words, std::map<std::string, std::string> variables = {}) {
  return refusal([&] { parse(words, variables); });
}

TEST(LaunchFlags, TorchrunsSpellingsMeanTheSame) {
  for (const Words& words :
       {Words{"--nproc", "4", "x.py"}, Words{"--nproc-per-node", "4", "x.py"},
        Words{"--nproc_per_node=4", "x.py"}, Words{"--nproc_per_node", "4", "x.py"},
        Words{"--nproc-per=4", "x.py"}}) {
    const LaunchCommandLine line = parse(words);
    EXPECT_EQ(line.options.nproc, 4);
    EXPECT_THAT(line.words, ElementsAre("x.py"));
  }
}

TEST(LaunchFlags, DefaultsAreTorchruns) {
  const LaunchOptions options = parse({"x.py"}).options;
  EXPECT_EQ(options.nproc_kind, NprocKind::kNumber);
  EXPECT_EQ(options.nproc, 1);
  EXPECT_EQ(options.node_count, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_EQ(options.run_id, "none");
  EXPECT_EQ(options.role, "default");
  EXPECT_FALSE(options.given("nproc"));
}

TEST(LaunchFlags, FlagsEndAtTheFirstOtherWord) {
  const LaunchCommandLine line = parse({"--nproc", "2", "a.json", "--set", "--nproc", "9", "--"});
  EXPECT_EQ(line.options.nproc, 2);
  EXPECT_THAT(line.words, ElementsAre("a.json", "--set", "--nproc", "9", "--"));
  EXPECT_FALSE(line.is_program);
}

TEST(LaunchFlags, TwoDashesBeginAProgram) {
  const LaunchCommandLine line = parse({"--nproc", "2", "--", "--odd", "x"});
  EXPECT_TRUE(line.is_program);
  EXPECT_THAT(line.words, ElementsAre("--odd", "x"));
}

TEST(LaunchFlags, ShortFormsOfTorchrun) {
  const LaunchOptions options = parse({"-r", "3", "-t0:1,1:2", "-m", "pkg.train"}).options;
  EXPECT_EQ(options.redirects.of(5), 3);
  EXPECT_EQ(options.tee.of(0), 1);
  EXPECT_EQ(options.tee.of(1), 2);
  EXPECT_EQ(options.tee.of(2), 0);
  EXPECT_TRUE(options.module);
}

TEST(LaunchFlags, TimesWithAndWithoutUnits) {
  EXPECT_DOUBLE_EQ(parse({"--grace-period", "2m", "x"}).options.grace_period, 120);
  EXPECT_DOUBLE_EQ(parse({"--grace-period", "1.5", "x"}).options.grace_period, 1.5);
  EXPECT_DOUBLE_EQ(parse({"--grace_period=45s", "x"}).options.grace_period, 45);
  EXPECT_DOUBLE_EQ(parse({"--rdzv-conf", "timeout=900,join_timeout=60", "x"}).options.join_timeout,
                   60);
}

TEST(LaunchFlags, OurVariableWinsOverTorchrunsAndTheCommandLineOverBoth) {
  const std::map<std::string, std::string> both = {{"TRAINCTL_NPROC", "3"},
                                                   {"PET_NPROC_PER_NODE", "2"}};
  EXPECT_EQ(parse({"x"}, both).options.nproc, 3);
  EXPECT_EQ(parse({"x"}, both).options.source("nproc"), "TRAINCTL_NPROC");
  EXPECT_EQ(parse({"x"}, {{"PET_NPROC_PER_NODE", "2"}}).options.nproc, 2);
  EXPECT_EQ(parse({"--nproc", "5", "x"}, both).options.nproc, 5);
  // Even where the variable alone would be refused.
  EXPECT_EQ(parse({"--nnodes", "2", "x"}, {{"PET_NNODES", "1:4"}}).options.node_count, 2);
}

TEST(LaunchFlags, KubeflowsVariablesMakeANode) {
  const LaunchOptions options = parse({"x"}, {{"PET_NNODES", "2"},
                                              {"PET_NPROC_PER_NODE", "auto"},
                                              {"PET_NODE_RANK", "1"},
                                              {"PET_MASTER_ADDR", "job-master-0"},
                                              {"PET_MASTER_PORT", "23456"}})
                                    .options;
  EXPECT_EQ(options.node_count, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.nproc_kind, NprocKind::kAuto);
  EXPECT_EQ(options.master_addr, "job-master-0");
  EXPECT_EQ(options.master_port, 23456);
}

TEST(LaunchFlags, StandaloneOverridesTheEnvironmentButNotTheCommandLine) {
  const LaunchOptions options =
      parse({"--standalone", "x"}, {{"PET_NNODES", "4"}, {"PET_NODE_RANK", "2"}}).options;
  EXPECT_EQ(options.node_count, 1);
  EXPECT_FALSE(options.node_rank);
  EXPECT_THAT(refused({"--standalone", "--nnodes", "2", "x"}), HasSubstr("leave --nnodes out"));
  EXPECT_EQ(refused({"--standalone", "--nnodes", "1", "x"}), "");
}

TEST(LaunchFlags, EqualRangeOfNodesIsANumberAnElasticOneIsRefused) {
  EXPECT_EQ(parse({"--nnodes", "3:3", "x"}).options.node_count, 3);
  EXPECT_THAT(refused({"--nnodes", "1:4", "x"}), AllOf(HasSubstr("1:4"), HasSubstr("elastic")));
}

struct BadValue {
  Words words;
  std::map<std::string, std::string> variables;
  const char* expected;
};

class LaunchFlagsRefuse : public ::testing::TestWithParam<BadValue> {};

TEST_P(LaunchFlagsRefuse, NamesFlagOrVariableAndValue) {
  EXPECT_THAT(refused(GetParam().words, GetParam().variables), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Values, LaunchFlagsRefuse,
    ::testing::Values(
        BadValue{{"--nproc", "0", "x"}, {}, "--nproc is '0'"},
        BadValue{{"--nproc", "xpu", "x"}, {}, "--nproc is 'xpu'"},
        BadValue{{"--nproc", "99999999999999999999", "x"}, {}, "from 1 to 65536"},
        BadValue{{"--nproc"}, {}, "--nproc needs a value"},
        BadValue{{"--nporc", "2", "x"}, {}, "did you mean '--nproc'?"},
        BadValue{{"--maxrestarts", "2", "x"}, {}, "did you mean '--max-restarts'?"},
        BadValue{{"-q", "x"}, {}, "unknown flag '-q'"},
        BadValue{{"--standalone=1", "x"}, {}, "takes no value"},
        BadValue{{"--nnodes", "0", "x"}, {}, "--nnodes is '0'"},
        BadValue{{"--nnodes", "2", "--node-rank", "2", "x"}, {}, "numbered from 0"},
        BadValue{{"--node-rank", "1", "x"}, {}, "--node-rank is 1, but there is 1 node ("},
        BadValue{{"--master-port", "65536", "x"}, {}, "0 to 65535"},
        BadValue{{"--master-addr", "", "x"}, {}, "must not be empty"},
        BadValue{{"--max-restarts", "-1", "x"}, {}, "--max-restarts is '-1'"},
        BadValue{{"--grace-period", "soon", "x"}, {}, "--grace-period is 'soon'"},
        BadValue{{"--grace-period", "-5", "x"}, {}, "--grace-period is '-5'"},
        BadValue{{"--join-timeout", "nan", "x"}, {}, "--join-timeout is 'nan'"},
        BadValue{{"--monitor-interval", "0", "x"}, {}, "more than nothing"},
        BadValue{{"--redirects", "4", "x"}, {}, "--redirects is '4'"},
        BadValue{{"--redirects", "0:1,x:2", "x"}, {}, "names no local rank"},
        BadValue{{"--tee", "0:", "x"}, {}, "--tee is '0:'"},
        BadValue{{"--local-ranks-filter", "0,,1", "x"}, {}, "commas between"},
        BadValue{{"--rdzv-backend", "etcd", "x"}, {}, "--rdzv-backend is 'etcd'"},
        BadValue{{"--rdzv-conf", "is_hots=1", "x"}, {}, "'is_hots' is no key that is known"},
        BadValue{{"--rdzv-conf", "timeout", "x"}, {}, "'timeout' is no KEY=VALUE"},
        BadValue{{"--n", "2", "x"}, {}, "--nproc, --nnodes, --node-rank, --no-python"},
        BadValue{{"--nproc", "\xff", "x"}, {}, "is not valid UTF-8"},
        BadValue{{"--cpu-affinity", "numa", "x"}, {}, "auto or none"},
        BadValue{{"--start-method", "thread", "x"}, {}, "one of spawn, fork, forkserver"},
        BadValue{{"--numa_binding=near", "x"}, {}, "one of node, socket"},
        BadValue{{"--signals-to-handle=SIGTERM,SIGWINCH", "x"}, {}, "is 'SIGWINCH'"},
        BadValue{{"-m", "--no-python", "x"}, {}, "exclude each other"},
        BadValue{{"x"}, {{"PET_NNODES", "1:4"}}, "PET_NNODES is '1:4'"},
        BadValue{{"x"}, {{"TRAINCTL_NPROC_PER_NODE", "many"}}, "TRAINCTL_NPROC_PER_NODE is 'many'"},
        BadValue{{"x"}, {{"PET_STANDALONE", "maybe"}}, "PET_STANDALONE is 'maybe'"}));

TEST(LaunchFlags, ATorchrunCommandLineIsTakenWithANotePerFlagThatChangesNothing) {
  const LaunchOptions options =
      parse({"--start-method=fork", "--run-path", "--event-log-handler", "null", "--logs-specs",
             "mine", "--numa-binding", "node", "--signals-to-handle", "SIGTERM,SIGUSR1",
             "--duplicate-stdout-filters", "a", "--duplicate-stderr-filters", "b", "--rdzv-conf",
             "read_timeout=90,join_timeout=7", "--local-addr", "n1", "x.py"})
          .options;
  EXPECT_EQ(options.join_timeout, 7);
  EXPECT_EQ(options.local_addr, "n1");
  EXPECT_THAT(options.notes, ::testing::SizeIs(9));
  EXPECT_THAT(options.notes[0],
              HasSubstr("--start-method of torchrun changes nothing here: ranks"));
  EXPECT_THAT(options.notes[8], HasSubstr("--rdzv-conf read_timeout changes nothing"));
  EXPECT_THAT(parse({"x"}, {{"PET_START_METHOD", "spawn"}}).options.notes[0],
              HasSubstr("PET_START_METHOD"));
}

TEST(LaunchFlags, EveryFlagIsInTheHelpOrHasANote) {
  const std::string help = launch_flags_help();
  for (const FlagRow& row : launch_flags()) {
    const std::string flag = std::string("--") + row.name;
    EXPECT_EQ(help.find(flag) != std::string::npos, row.note == nullptr) << flag;
  }
}

TEST(LaunchFlags, EachValueFlagRefusesNonsense) {
  for (const FlagRow& row : launch_flags()) {
    const std::string name = row.name;
    // These take any text.
    if (row.value == nullptr || name == "rdzv-endpoint" || name == "rdzv-id" || name == "role" ||
        name == "log-dir" || name == "master-addr" || name == "local-addr" ||
        name == "event-log-handler" || name == "logs-specs" || name.starts_with("duplicate-"))
      continue;
    EXPECT_THAT(refused({"--" + name, "no sense", "x"}), HasSubstr("--" + name)) << name;
  }
}

TEST(LaunchFlags, HelpIsAskedForOnlyBeforeTheProgram) {
  EXPECT_TRUE(parse({"--nproc", "2", "--help"}).help);
  EXPECT_TRUE(parse({"-h"}).help);
  EXPECT_FALSE(parse({"x.py", "--help"}).help);
}

}  // namespace
}  // namespace trainctl
