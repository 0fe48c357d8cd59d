// Where launchers meet: the endpoint's addresses, a listener there for the one who serves, and a
// connection for the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/sockets.h"
#include "trainctl/launch/node_group.h"

namespace trainctl {

class MeetingPlace {
 public:
  explicit MeetingPlace(const RendezvousOptions& options);

  const std::string& text() const { return text_; }  // host:port, for messages

  // Resolves the name. False: stopped. Throws UserError for one that does not resolve.
  bool find(SteadyTime deadline, Stopped stopped);
  bool is_here() const;               // an address of this machine
  bool is_this_machine_only() const;  // localhost and its kind
  std::string first_address() const { return addresses_.front().host(); }

  // Closed, with errno set, where that fails.
  Descriptor listen() const;
  // To whoever listens; closed, with the problem, where nobody does.
  Descriptor call(Stopped stopped, std::string* problem) const;

 private:
  std::string host_;
  int64_t port_;
  std::string source_, cure_;
  std::string text_;
  std::vector<Address> addresses_;  // as last resolved
};

// False: stopped meanwhile.
bool pause(std::chrono::milliseconds time, Stopped stopped);

}  // namespace trainctl
