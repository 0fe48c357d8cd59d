// Names and addresses between hosts.
#pragma once

#include <string>

namespace trainctl {

// Throws environment_error naming `host` and who named it ("MASTER_ADDR, set by torchrun").
void require_resolvable(const std::string& host, const std::string& named_by);

// The address of this host from which packets to `host` leave, as numbers: the interface that
// reaches the others, without asking what this host's own name means. Sends nothing. Empty where
// there is no way to it.
std::string local_address_towards(const std::string& host);

bool is_loopback(const std::string& address);

}  // namespace trainctl
