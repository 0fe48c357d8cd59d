#include "launch/flag_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "config/duration.h"
#include "trainctl/base/error.h"

namespace trainctl {
namespace {

[[noreturn]] void refuse(const FlagValue& value, const std::string& expected) {
  throw usage_error(value.source + " is '" + value.text + "'; " + expected);
}

std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

int64_t whole(const FlagValue& value, int64_t low, int64_t high) {
  const auto number = parse_whole(value.text);
  if (!number || *number < low || *number > high) {
    refuse(value,
           "it must be a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return *number;
}

// "30", "1.5", "30s", "2m".
double seconds(const FlagValue& value, double least) {
  double number = 0;
  const char* const last = value.text.data() + value.text.size();
  const auto [end, error] = std::from_chars(value.text.data(), last, number);
  std::optional<double> parsed = parse_duration(value.text);
  if (error == std::errc() && end == last) parsed = number;
  if (!parsed || !std::isfinite(*parsed) || *parsed < least || *parsed > 1e8) {
    refuse(value, std::string("it must be a time such as 30, 30s or 2m") +
                      (least > 0 ? ", more than nothing" : ""));
  }
  return *parsed;
}

std::string text(const FlagValue& value) {
  if (value.text.empty()) refuse(value, "it must not be empty");
  return value.text;
}

void set_nproc(LaunchOptions* options, const FlagValue& value) {
  if (value.text == "auto") {
    options->nproc_kind = NprocKind::kAuto;
  } else if (value.text == "gpu") {
    options->nproc_kind = NprocKind::kGpu;
  } else if (value.text == "cpu") {
    options->nproc_kind = NprocKind::kCpu;
  } else {
    const auto number = parse_whole(value.text);
    if (!number || *number < 1 || *number > 65536)
      refuse(value, "it must be a number of ranks from 1 to 65536, auto, gpu or cpu");
    options->nproc_kind = NprocKind::kNumber;
    options->nproc = *number;
  }
}

void set_nnodes(LaunchOptions* options, const FlagValue& value) {
  const size_t colon = value.text.find(':');
  const auto low = parse_whole(std::string_view(value.text).substr(0, colon));
  const auto high = colon == std::string::npos
                        ? low
                        : parse_whole(std::string_view(value.text).substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > 65536)
    refuse(value, "it must be a number of nodes from 1 to 65536");
  if (*low != *high) {
    refuse(value,
           "an elastic range is not in this version: a run has a fixed number of nodes, so give "
           "one number");
  }
  options->node_count = *low;
}

void set_backend(LaunchOptions* options, const FlagValue& value) {
  if (value.text != "static" && value.text != "c10d") {
    refuse(value,
           "trainctl's launchers meet over their own TCP rendezvous, which stands for torchrun's "
           "static and c10d; leave it out");
  }
  options->rdzv_backend = value.text;
}

// torchrun's key=value list.
void set_rdzv_conf(LaunchOptions* options, const FlagValue& value) {
  // What tunes torchrun's own rendezvous, which is not ours.
  constexpr const char* kOthers[] = {"is_host",
                                     "read_timeout",
                                     "last_call_timeout",
                                     "close_timeout",
                                     "heartbeat",
                                     "heartbeat_timeout",
                                     "keep_alive_interval",
                                     "use_libuv",
                                     "store_type",
                                     "keep_alive_max_attempt",
                                     "rank",
                                     "protocol"};
  std::string_view rest = value.text;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::string key(pair.substr(0, pair.find('=')));
    if (pair.find('=') == std::string_view::npos)
      refuse(value, "'" + std::string(pair) + "' is no KEY=VALUE");
    if (std::find(std::begin(kOthers), std::end(kOthers), key) != std::end(kOthers)) {
      options->notes.push_back(value.source + " " + key +
                               " changes nothing: it tunes torchrun's own rendezvous");
      continue;
    }
    if (key != "timeout" && key != "join_timeout") {
      refuse(value, "'" + key +
                        "' is no key that is known; timeout and join_timeout mean something here, "
                        "which --join-timeout sets too");
    }
    const std::string time(pair.substr(key.size() + 1));
    options->join_timeout = seconds({value.source + " " + key, time}, 1e-3);
    options->sources["join-timeout"] = value.source;
  }
}

void nothing(LaunchOptions* /*options*/, const FlagValue& /*value*/) {}

void one_of(const FlagValue& value, std::initializer_list<const char*> words) {
  std::string list;
  for (const char* word : words) {
    if (value.text == word) return;
    list += (list.empty() ? "" : ", ") + std::string(word);
  }
  refuse(value, "it must be one of " + list);
}

void check_start_method(LaunchOptions* /*options*/, const FlagValue& value) {
  one_of(value, {"spawn", "fork", "forkserver"});
}

void check_numa_binding(LaunchOptions* /*options*/, const FlagValue& value) {
  one_of(value, {"node", "socket", "exclusive", "core-complex"});
}

void check_signals(LaunchOptions* /*options*/, const FlagValue& value) {
  std::string_view rest = value.text;
  do {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    one_of({value.source, std::string(word)},
           {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"});
  } while (!rest.empty());
}

StreamChoice parse_streams(const FlagValue& value) {
  StreamChoice choice;
  const auto streams = [&value](std::string_view digit) {
    if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') {
      refuse(value,
             "it must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a number for some "
             "local ranks, as in 0:3,1:2");
    }
    return digit[0] - '0';
  };
  if (value.text.find(':') == std::string::npos) {
    choice.all = streams(value.text);
    return choice;
  }
  std::string_view rest = value.text;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t colon = std::min(pair.find(':'), pair.size());
    const auto rank = parse_whole(pair.substr(0, colon));
    const int chosen = streams(pair.substr(std::min(pair.size(), colon + 1)));
    if (!rank || *rank < 0) refuse(value, "'" + std::string(pair) + "' names no local rank");
    choice.by_rank[*rank] = chosen;
  }
  return choice;
}

void set_filter(LaunchOptions* options, const FlagValue& value) {
  std::set<int64_t> ranks;
  std::string_view rest = value.text;
  do {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto rank = parse_whole(word);
    if (!rank || *rank < 0) refuse(value, "it must be local ranks with commas between, as in 0,1");
    ranks.insert(*rank);
  } while (!rest.empty());
  options->local_ranks_filter = ranks;
}

void set_affinity(LaunchOptions* options, const FlagValue& value) {
  if (value.text != "auto" && value.text != "none") refuse(value, "it must be auto or none");
  options->pin_cpus = value.text == "auto";
}

using Options = LaunchOptions;
using Value = FlagValue;

constexpr FlagRow kFlags[] = {
    // How many ranks
    {"nproc", "nproc-per-node", 0, "N|auto|gpu|cpu",
     "Ranks on this node: a number; gpu: one for each visible GPU; cpu: one for each processor; "
     "auto: gpu where there is one, else cpu (default 1)",
     set_nproc, true},
    {"nnodes", nullptr, 0, "N", "Nodes of the run, each with a launcher (default 1)", set_nnodes,
     true},
    {"node-rank", nullptr, 0, "K",
     "This node's number, from 0; left out, the rendezvous assigns it",
     [](Options* o, const Value& v) { o->node_rank = whole(v, 0, 65535); }, true},
    // Where they meet
    {"standalone", nullptr, 0, nullptr, "One node by itself, whatever the environment says",
     [](Options* o, const Value& v) { o->standalone = parse_switch(v); }, true},
    {"rdzv-endpoint", nullptr, 0, "HOST[:PORT]",
     "Where the launchers of several nodes meet; the one on that host serves it (port 29400)",
     [](Options* o, const Value& v) { o->rdzv_endpoint = text(v); }, true},
    {"rdzv-id", nullptr, 0, "ID",
     "Name of the launch, the same on all nodes; keeps strangers out of the rendezvous",
     [](Options* o, const Value& v) { o->run_id = text(v); }, true},
    {"rdzv-backend", nullptr, 0, "static|c10d",
     "As in torchrun's scripts: both mean our rendezvous", set_backend, true},
    {"rdzv-conf", nullptr, 0, "KEY=VALUE,…",
     "As in torchrun's scripts: timeout and join_timeout; what tunes torchrun's own rendezvous is "
     "taken and said to change nothing",
     set_rdzv_conf, true},
    {"join-timeout", nullptr, 0, "TIME", "How long to wait for the other nodes (default 300s)",
     [](Options* o, const Value& v) { o->join_timeout = seconds(v, 1e-3); }, false},
    {"master-addr", nullptr, 0, "HOST",
     "Address at which the ranks reach rank 0 (one node: 127.0.0.1; several: the endpoint's host)",
     [](Options* o, const Value& v) { o->master_addr = text(v); }, true},
    {"master-port", nullptr, 0, "PORT", "Its port (default: a free one)",
     [](Options* o, const Value& v) { o->master_port = whole(v, 0, 65535); }, true},
    // Failures and signals
    {"max-restarts", nullptr, 0, "N",
     "Start all ranks again this often after a failure that is worth it (default 0)",
     [](Options* o, const Value& v) { o->max_restarts = whole(v, 0, 1000000); }, true},
    {"grace-period", nullptr, 0, "TIME",
     "Between the signal that ends the ranks and SIGKILL (default 30s)",
     [](Options* o, const Value& v) { o->grace_period = seconds(v, 0); }, false},
    {"monitor-interval", nullptr, 0, "SECONDS",
     "How often to look at the out-of-memory counters; exits of ranks are seen at once (default 1)",
     [](Options* o, const Value& v) { o->monitor_interval = seconds(v, 1e-3); }, true},
    {"requeue", nullptr, 0, nullptr,
     "Under Slurm: after a stop with a checkpoint (code 75) put the job back into the queue",
     [](Options* o, const Value& v) { o->requeue = parse_switch(v); }, false},
    // Output
    {"log-dir", nullptr, 0, "DIR",
     "Files of what each rank prints, in DIR/ID/attempt_N/LOCAL_RANK/; alone it means --tee 3",
     [](Options* o, const Value& v) { o->log_dir = text(v); }, true},
    {"redirects", nullptr, 'r', "0..3|R:N,…",
     "Streams that go to files only: 1 stdout, 2 stderr, 3 both; or by local rank, as in 0:3,1:2",
     [](Options* o, const Value& v) { o->redirects = parse_streams(v); }, true},
    {"tee", nullptr, 't', "0..3|R:N,…", "Streams that go to files and to the screen",
     [](Options* o, const Value& v) { o->tee = parse_streams(v); }, true},
    {"local-ranks-filter", nullptr, 0, "R,…", "Show only these local ranks on the screen",
     set_filter, true},
    {"role", nullptr, 0, "NAME", "ROLE_NAME of the ranks (default: default)",
     [](Options* o, const Value& v) { o->role = text(v); }, true},
    // Devices
    {"virtual-local-rank", nullptr, 0, nullptr,
     "Each rank sees one GPU only, as number 0, and LOCAL_RANK 0",
     [](Options* o, const Value& v) { o->virtual_local_rank = parse_switch(v); }, true},
    {"cpu-affinity", nullptr, 0, "auto|none",
     "auto: each rank keeps to its share of the processors, near its GPU where that is known",
     set_affinity, false},
    // The program
    {"module", nullptr, 'm', nullptr, "What follows is a Python module, as in python -m",
     [](Options* o, const Value& v) { o->module = parse_switch(v); }, true},
    {"no-python", nullptr, 0, nullptr, "What follows is a program, as after --",
     [](Options* o, const Value& v) { o->no_python = parse_switch(v); }, true},
    {"dry-run", nullptr, 0, nullptr, "Print each rank's environment and command, and end",
     [](Options* o, const Value& v) { o->dry_run = parse_switch(v); }, false},
    {"local-addr", nullptr, 0, "HOST",
     "This node's address: where the ranks reach rank 0 when this is node 0 and --master-addr is "
     "not given",
     [](Options* o, const Value& v) { o->local_addr = text(v); }, true},
    // torchrun's flags that change nothing here
    {"start-method", nullptr, 0, "METHOD", "", check_start_method, true,
     "ranks are programs of their own, never copies of a Python process"},
    {"run-path", nullptr, 0, nullptr, "", nothing, true, "scripts run as python SCRIPT"},
    {"event-log-handler", nullptr, 0, "NAME", "", nothing, true,
     "it names a Python plug-in of torchrun"},
    {"logs-specs", nullptr, 0, "NAME", "", nothing, true,
     "it names a Python plug-in of torchrun; --log-dir, --redirects and --tee choose the files"},
    {"numa-binding", nullptr, 0, "MODE", "", check_numa_binding, true,
     "each rank keeps to its share of the processors near its GPU anyway (--cpu-affinity)"},
    {"signals-to-handle", nullptr, 0, "NAMES", "", check_signals, true,
     "SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are always forwarded"},
    {"duplicate-stdout-filters", nullptr, 0, "WORDS", "", nothing, true,
     "no filtered copy is written; the files of --log-dir have every line"},
    {"duplicate-stderr-filters", nullptr, 0, "WORDS", "", nothing, true,
     "no filtered copy is written; the files of --log-dir have every line"},
    {"use-env", nullptr, 0, nullptr, "", nothing, false,
     "ranks always find LOCAL_RANK in their environment"},
};

}  // namespace

std::span<const FlagRow> launch_flags() { return kFlags; }

bool parse_switch(const FlagValue& value) {
  for (const char* yes : {"", "1", "true", "True", "yes", "on"})
    if (value.text == yes) return true;
  for (const char* no : {"0", "false", "False", "no", "off"})
    if (value.text == no) return false;
  refuse(value, "it is a switch: 1 or 0");
}

}  // namespace trainctl
