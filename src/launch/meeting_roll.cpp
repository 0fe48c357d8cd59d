// The part of Meeting that tells who is there and who is missing.
#include <algorithm>

#include "launch/meeting.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"

namespace trainctl {

std::string Meeting::describe(const Member& member) const {
  std::string text;
  if (member.offer && member.offer->node_rank)
    text = "node " + std::to_string(*member.offer->node_rank) + " ";
  text += "(" + (member.host.empty() ? member.address : member.host);
  // The address tells apart hosts that share a name, as containers often do.
  if (!member.own && !member.address.empty() && member.address != member.host)
    text += " at " + member.address;
  return text + ")";
}

std::vector<const Meeting::Member*> Meeting::in_order() const {
  std::vector<const Member*> order;
  for (const auto& [peer, member] : members_) {
    if (member.offer) order.push_back(&member);
  }
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) {
    const int64_t last = INT64_MAX;
    const int64_t rank_a = a->offer->node_rank.value_or(last);
    const int64_t rank_b = b->offer->node_rank.value_or(last);
    return rank_a != rank_b ? rank_a < rank_b : a->arrival < b->arrival;
  });
  return order;
}

std::string Meeting::who_is_missing() const {
  std::vector<std::string> there, missing;
  std::set<int64_t> known;
  for (const Member* member : in_order()) {
    if (member->offer->node_rank) known.insert(*member->offer->node_rank);
    if (member->joined)
      there.push_back(describe(*member));
    else
      missing.push_back(describe(*member));
  }
  const auto open = options_.node_count - static_cast<int64_t>(there.size() + missing.size());
  const bool all_numbered = known.size() == there.size() + missing.size();
  if (open > 0 && all_numbered && open <= 32) {
    for (int64_t rank = 0; rank < options_.node_count; ++rank) {
      if (!known.contains(rank)) missing.push_back("node " + std::to_string(rank));
    }
  } else if (open > 0) {
    missing.push_back(counted(open, "node"));
  }
  return "missing: " + join(missing, ", ") + "; there: " + join(there, ", ");
}

void Meeting::time_out() {
  end_all(static_cast<int64_t>(ExitCode::kEnvironment),
          "not all " + counted(options_.node_count, "node") + " came within " +
              seconds_text(options_.join_timeout) + " (--join-timeout); " + who_is_missing() +
              "; start trainctl launch on each node with the same --nnodes, --rdzv-endpoint and "
              "--rdzv-id, and see that the endpoint's port is open between them");
}

}  // namespace trainctl
