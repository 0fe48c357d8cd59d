#include "launch/meeting_place.h"

#include <algorithm>
#include <thread>

#include "trainctl/base/error.h"
#include "trainctl/base/host.h"
#include "trainctl/base/log.h"
#include "trainctl/launch/endpoint.h"

namespace trainctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kResolveTime{5};  // until a name that does not resolve is taken for wrong
constexpr seconds kConnectTime{3};  // per address
constexpr milliseconds kNamePause{500};

SteadyTime now() { return std::chrono::steady_clock::now(); }

}  // namespace

MeetingPlace::MeetingPlace(const RendezvousOptions& options)
    : host_(options.host),
      port_(options.port),
      source_(options.host_source),
      cure_(options.host_cure),
      text_(Endpoint{options.host, options.port}.to_string()) {}

// Names of pods come to be when the pods do, and name servers have hiccups: elsewhere, and the
// first time, a name that does not resolve is taken for wrong.
bool MeetingPlace::find(SteadyTime deadline, Stopped stopped) {
  const bool may_come = container_kind() == "kubernetes";
  const SteadyTime give_up = may_come ? deadline : std::min(deadline, now() + kResolveTime);
  for (bool said = false;; said = true) {
    Resolution found = resolve(host_, port_, kResolveTime, stopped);
    if (!found.addresses.empty()) addresses_ = std::move(found.addresses);
    if (!addresses_.empty()) return true;
    if (stopped()) return false;
    if (now() > give_up - kNamePause) {
      throw environment_error("the host name '" + host_ + "' of " + source_ +
                              " cannot be resolved: " + found.problem + "; " + cure_);
    }
    if (!said) {
      log_info("rendezvous: the host name '" + host_ + "' cannot be resolved yet (" +
               found.problem + ")");
    }
    if (!pause(kNamePause, stopped)) return false;
  }
}

bool MeetingPlace::is_here() const {
  return std::any_of(addresses_.begin(), addresses_.end(), is_local);
}

// A host's own name often stands for a loopback address in its own /etc/hosts: only what says
// "this machine" everywhere is kept from the network.
bool MeetingPlace::is_this_machine_only() const {
  const bool only_loopback =
      std::all_of(addresses_.begin(), addresses_.end(),
                  [](const Address& address) { return address.is_loopback(); });
  return only_loopback && (host_ == "localhost" || host_ == addresses_.front().host());
}

Descriptor MeetingPlace::listen() const {
  return is_this_machine_only() ? listen_on(addresses_.front()) : listen_on_any(port_);
}

Descriptor MeetingPlace::call(Stopped stopped, std::string* problem) const {
  for (const Address& address : addresses_) {
    Descriptor connection = connect_to(address, kConnectTime, stopped, problem);
    if (connection.open() || stopped()) return connection;
  }
  return {};
}

bool pause(milliseconds time, Stopped stopped) {
  for (const SteadyTime end = now() + time; now() < end;) {
    if (stopped()) return false;
    std::this_thread::sleep_for(std::min(time, milliseconds(20)));
  }
  return true;
}

}  // namespace trainctl
