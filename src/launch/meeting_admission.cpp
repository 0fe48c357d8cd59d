// The part of Meeting that decides who belongs to the run, and as which node.
#include <algorithm>

#include "launch/meeting.h"
#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"
#include "trainctl/launch/agreed_values.h"

namespace trainctl {
namespace {

constexpr size_t kMostReportedStrangers = 10;
constexpr auto kUsage = static_cast<int64_t>(ExitCode::kUsage);

}  // namespace

void Meeting::greet(Peer peer, Member* member, const Message& hello) {
  if (hello.kind != MessageKind::kHello) {
    stranger(*member, "did not greet as a launcher does");
    outgoing_.push_back({peer, {}, false, /*drop=*/true});
    members_.erase(peer);
  } else if (hello.version != kWireVersion) {
    const std::string versions = "it speaks version " + std::to_string(hello.version) +
                                 " of the launchers' protocol, the launcher on " + options_.host +
                                 " version " + std::to_string(kWireVersion);
    stranger(*member, versions);
    refuse(peer, kUsage,
           "this launcher is of another trainctl: " + versions +
               "; start the same build on all nodes");
  } else if (hello.token != options_.token) {
    stranger(*member, "belongs to another run (another --rdzv-id)");
    refuse(
        peer, kUsage,
        "the launcher on " + options_.host +
            " serves another run: its --rdzv-id differs from the one given here; give all nodes of "
            "a run the same one, and runs beside each other endpoints of their own");
  } else {
    member->greeted = true;
    member->host = hello.host;
    Message welcome;
    welcome.kind = MessageKind::kWelcome;
    welcome.host = options_.host;
    outgoing_.push_back({peer, welcome});
  }
}

void Meeting::stranger(const Member& member, const std::string& how) {
  if (reported_strangers_.size() >= kMostReportedStrangers) return;
  if (!reported_strangers_.insert(member.address).second) return;
  log_.push_back("rendezvous: refused a connection from " + member.address + ": " + how);
}

void Meeting::take_in(Peer peer, Member* member, const Message& message) {
  if (phase_ != Phase::kGathering) {
    if (!member->offer) {
      refuse(peer, kUsage,
             "the run at " + options_.host + " has begun with its " +
                 counted(options_.node_count, "node") + "; this one is one too many");
    }
    return;
  }
  if (!member->own && !own_joined_) {
    early_.emplace_back(peer,
                        message);  // the serving launcher is node 0 and what others must equal
    return;
  }
  if (!member->offer && !admit(peer, member, message)) return;
  member->joined = true;
  member->done = false;
  if (member->own) own_joined_ = true;
  begin_when_complete();
  for (const auto& [other, earlier] : std::exchange(early_, {})) {
    const auto found = members_.find(other);
    if (found != members_.end()) take_in(other, &found->second, earlier);
  }
}

bool Meeting::admit(Peer peer, Member* member, const Message& message) {
  const std::string difference = disagreement(*member, message);
  if (!difference.empty()) {
    end_all(kUsage, difference + "; nothing was started: give all nodes the same and start again");
    return false;
  }
  const auto members = in_order();
  const auto rank = message.offer.node_rank;
  if (rank && *rank >= options_.node_count) {
    refuse(peer, kUsage,
           "--node-rank " + std::to_string(*rank) + " is beyond the last of " +
               counted(options_.node_count, "node") + ", which is " +
               std::to_string(options_.node_count - 1));
    return false;
  }
  for (const Member* other : members) {
    const bool taken = other->offer->node_rank == rank || (other->own && rank == 0);
    if (!rank || !taken) continue;
    log_.push_back("rendezvous: refused " + describe(*member) + ": its --node-rank " +
                   std::to_string(*rank) + " is that of " + describe(*other));
    refuse(peer, kUsage,
           "--node-rank " + std::to_string(*rank) + " is given twice: here and on " +
               describe(*other) + "; number the nodes 0 to " +
               std::to_string(options_.node_count - 1) + ", or leave --node-rank out");
    return false;
  }
  if (static_cast<int64_t>(members.size()) >= options_.node_count) {
    refuse(peer, kUsage,
           "the run at " + options_.host + " has its " + counted(options_.node_count, "node") +
               " already; this one is one too many (--nnodes)");
    return false;
  }
  member->offer = message.offer;
  if (member->own && !member->offer->node_rank) member->offer->node_rank = 0;
  return true;
}

// What a newcomer and the serving launcher do not agree on; empty when they do.
std::string Meeting::disagreement(const Member& member, const Message& message) const {
  // The address tells apart hosts that share a name.
  const std::string there =
      message.offer.host + (message.offer.host == options_.host ? " at " + member.address : "");
  std::string text =
      difference_text({{"--nnodes", std::to_string(options_.node_count)}}, options_.host,
                      {{"--nnodes", std::to_string(message.node_count)}}, there);
  for (const auto& [peer, other] : members_) {
    if (text.empty() && other.own && other.offer)
      text = difference_text(other.offer->agree, options_.host, message.offer.agree, there);
  }
  return text.empty() ? "" : "the nodes do not agree on " + text;
}

void Meeting::assign_node_ranks() {
  std::set<int64_t> free;
  for (int64_t rank = 0; rank < options_.node_count; ++rank) free.insert(rank);
  std::vector<Member*> unnumbered;
  for (auto& [peer, member] : members_) {
    if (!member.offer) continue;
    if (member.offer->node_rank)
      free.erase(*member.offer->node_rank);
    else
      unnumbered.push_back(&member);
  }
  std::sort(unnumbered.begin(), unnumbered.end(),
            [](const Member* a, const Member* b) { return a->arrival < b->arrival; });
  for (Member* member : unnumbered) {
    member->offer->node_rank = *free.begin();
    free.erase(free.begin());
  }
}

}  // namespace trainctl
