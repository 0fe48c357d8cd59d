#include "doctor/nccl_variables.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

struct Rule {
  const char* name;
  const char* words;          // allowed, divided by spaces; empty: numbers
  int64_t low = 0, high = 0;  // numbers allowed
};

constexpr Rule kRules[] = {
    {"NCCL_SOCKET_FAMILY", "AF_INET AF_INET6"},
    {"NCCL_DEBUG", "VERSION WARN INFO ABORT TRACE NONE"},
    {"NCCL_LAUNCH_MODE", "PARALLEL GROUP"},
    {"NCCL_P2P_LEVEL", "LOC NVL PIX PXB PHB SYS 0 1 2 3 4 5"},
    {"NCCL_NET_GDR_LEVEL", "LOC PIX PXB PHB SYS 0 1 2 3 4 5"},
    {"NCCL_NTHREADS", "64 128 256 512"},
    {"NCCL_P2P_DISABLE", "", 0, 1},
    {"NCCL_SHM_DISABLE", "", 0, 1},
    {"NCCL_IB_DISABLE", "", 0, 1},
    {"NCCL_NVLS_ENABLE", "", 0, 2},
    {"NCCL_CROSS_NIC", "", 0, 2},
    {"NCCL_SOCKET_NTHREADS", "", 1, 16},
    {"NCCL_NSOCKS_PERTHREAD", "", 1, 16},
    {"NCCL_MIN_NCHANNELS", "", 1, 64},
    {"NCCL_MAX_NCHANNELS", "", 1, 64},
    {"NCCL_IB_TIMEOUT", "", 1, 31},
    {"NCCL_IB_RETRY_CNT", "", 0, 7},
    {"NCCL_IB_GID_INDEX", "", -1, 255},
    {"NCCL_IB_SL", "", 0, 15},
    {"NCCL_IB_TC", "", 0, 255},
    {"NCCL_IB_QPS_PER_CONNECTION", "", 1, 128},
};

// Others that users set, for the search for typing errors.
constexpr const char* kOtherNames[] = {"NCCL_ALGO",
                                       "NCCL_BUFFSIZE",
                                       "NCCL_CHECK_POINTERS",
                                       "NCCL_COMM_BLOCKING",
                                       "NCCL_COMM_ID",
                                       "NCCL_CONF_FILE",
                                       "NCCL_CUMEM_ENABLE",
                                       "NCCL_CUMEM_HOST_ENABLE",
                                       "NCCL_DEBUG_FILE",
                                       "NCCL_DEBUG_SUBSYS",
                                       "NCCL_DMABUF_ENABLE",
                                       "NCCL_GDRCOPY_ENABLE",
                                       "NCCL_GRAPH_DUMP_FILE",
                                       "NCCL_GRAPH_FILE",
                                       "NCCL_GRAPH_REGISTER",
                                       "NCCL_HOSTID",
                                       "NCCL_IB_ADAPTIVE_ROUTING",
                                       "NCCL_IB_ADDR_FAMILY",
                                       "NCCL_IB_ADDR_RANGE",
                                       "NCCL_IB_HCA",
                                       "NCCL_IB_MERGE_NICS",
                                       "NCCL_IB_PCI_RELAXED_ORDERING",
                                       "NCCL_IB_PKEY",
                                       "NCCL_IB_ROCE_VERSION_NUM",
                                       "NCCL_IB_SPLIT_DATA_ON_QPS",
                                       "NCCL_IGNORE_CPU_AFFINITY",
                                       "NCCL_LL_BUFFSIZE",
                                       "NCCL_MAX_CTAS",
                                       "NCCL_MIN_CTAS",
                                       "NCCL_MNNVL_ENABLE",
                                       "NCCL_NET",
                                       "NCCL_NET_DISABLE_INTRA",
                                       "NCCL_NET_GDR_READ",
                                       "NCCL_NET_PLUGIN",
                                       "NCCL_NET_SHARED_BUFFERS",
                                       "NCCL_NVB_DISABLE",
                                       "NCCL_NVTX_DISABLE",
                                       "NCCL_P2P_DIRECT_DISABLE",
                                       "NCCL_PROFILER_PLUGIN",
                                       "NCCL_PROTO",
                                       "NCCL_PXN_DISABLE",
                                       "NCCL_RAS_ADDR",
                                       "NCCL_RAS_ENABLE",
                                       "NCCL_SET_THREAD_NAME",
                                       "NCCL_SOCKET_IFNAME",
                                       "NCCL_SOCKET_RETRY_CNT",
                                       "NCCL_TOPO_DUMP_FILE",
                                       "NCCL_TOPO_FILE",
                                       "NCCL_TUNER_PLUGIN",
                                       "NCCL_WIN_ENABLE",
                                       "NCCL_WORK_FIFO_BYTES"};

// Older PyTorch's own, no typing errors.
constexpr const char* kOfPyTorch[] = {"NCCL_BLOCKING_WAIT", "NCCL_ASYNC_ERROR_HANDLING",
                                      "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING"};

bool is_allowed(const Rule& rule, std::string value) {
  if (*rule.words == '\0') {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    return error == std::errc() && end == value.data() + value.size() && number >= rule.low &&
           number <= rule.high;
  }
  if (std::string(rule.name) == "NCCL_DEBUG") {  // in any case
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  }
  std::istringstream words(rule.words);
  for (std::string word; words >> word;) {
    if (word == value) return true;
  }
  return false;
}

std::string allowed_text(const Rule& rule) {
  if (*rule.words != '\0') return rule.words;
  return "numbers from " + std::to_string(rule.low) + " to " + std::to_string(rule.high);
}

std::string meant_instead_of(const std::string& name) {
  std::vector<std::string> known(std::begin(kOtherNames), std::end(kOtherNames));
  for (const Rule& rule : kRules) known.emplace_back(rule.name);
  const bool fine =
      std::find(known.begin(), known.end(), name) != known.end() ||
      std::find(std::begin(kOfPyTorch), std::end(kOfPyTorch), name) != std::end(kOfPyTorch);
  if (fine) return "";
  // Compared without the beginning that all share, which would make any two of them alike.
  std::vector<std::string> ends;
  for (const std::string& one : known) ends.push_back(one.substr(5));
  const auto near = nearest(name.substr(5), ends);
  return near ? "NCCL_" + *near : "";
}

}  // namespace

std::optional<WrongNcclVariable> wrong_nccl_variable(const Variables& variables) {
  for (const Rule& rule : kRules) {
    const std::string value = value_of(variables, rule.name);
    if (!value.empty() && !is_allowed(rule, value))
      return WrongNcclVariable{rule.name, value, allowed_text(rule), ""};
  }
  for (const auto& [name, value] : variables) {
    if (!name.starts_with("NCCL_")) continue;
    const std::string near = meant_instead_of(name);
    if (!near.empty() && value_of(variables, near).empty())
      return WrongNcclVariable{name, value, "", near};
  }
  return std::nullopt;
}

}  // namespace trainctl::doctor
