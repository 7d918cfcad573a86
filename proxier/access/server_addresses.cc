#include "proxier/access/server_addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "proxier/access/http_transfer.h"

namespace ipvsproxier::access {

using netlink::Family;
using netlink::IpAddress;

namespace {

constexpr const char* kDeadline = "addresses of the API server";
constexpr std::chrono::milliseconds kPoll{200};

template <typename Socket>
Socket read_as(const sockaddr* address) {
  Socket result;
  std::memcpy(&result, address, sizeof result);
  return result;
}

template <typename Bytes>
std::optional<IpAddress> address_from(Family family, const Bytes& bytes) {
  std::array<std::uint8_t, sizeof bytes> raw{};
  std::memcpy(raw.data(), &bytes, sizeof bytes);
  return IpAddress::from_bytes(family, raw);
}

std::optional<IpAddress> address_of(const addrinfo& info) {
  if (info.ai_family == AF_INET)
    return address_from(Family::ipv4, read_as<sockaddr_in>(info.ai_addr).sin_addr);
  if (info.ai_family == AF_INET6)
    return address_from(Family::ipv6, read_as<sockaddr_in6>(info.ai_addr).sin6_addr);
  return std::nullopt;
}

}  // namespace

struct ServerAddresses::Lookup {
  std::string host;
  addrinfo hints{};
  gaicb request{};
};

ServerAddresses::ServerAddresses(loop::Timers& timers, OnChange on_change)
    : timers_(timers), on_change_(std::move(on_change)) {}

ServerAddresses::~ServerAddresses() {
  timers_.cancel(kDeadline);
  if (!lookup_) return;
  if (gai_cancel(&lookup_->request) == EAI_NOTCANCELED)
    static_cast<void>(lookup_.release());  // its thread still writes there
  else if (lookup_->request.ar_result != nullptr)
    freeaddrinfo(lookup_->request.ar_result);
}

void ServerAddresses::answered(const std::string& server, const IpAddress& peer) {
  const auto now = timers_.now();
  peers_[peer] = now;
  std::erase_if(peers_, [&](const auto& entry) { return entry.second + kRemembered < now; });
  if (!lookup_ && now >= next_lookup_) look_up(host_of(server));
  tell();
}

void ServerAddresses::look_up(const std::string& host) {
  next_lookup_ = timers_.now() + kLookupAgain;
  if (host.empty()) return;
  if (const auto literal = IpAddress::parse(host)) {
    named_ = {*literal};
    return;
  }
  lookup_ = std::make_unique<Lookup>();
  lookup_->host = host;
  lookup_->hints.ai_socktype = SOCK_STREAM;
  lookup_->request.ar_name = lookup_->host.c_str();
  lookup_->request.ar_request = &lookup_->hints;
  gaicb* requests[] = {&lookup_->request};
  if (getaddrinfo_a(GAI_NOWAIT, requests, 1, nullptr) != 0) return lookup_.reset();
  timers_.at(kDeadline, timers_.now() + kPoll, [this] { poll(); });
}

// Without an answer of the name service the addresses stay.
void ServerAddresses::poll() {
  const int state = gai_error(&lookup_->request);
  if (state == EAI_INPROGRESS)
    return timers_.at(kDeadline, timers_.now() + kPoll, [this] { poll(); });
  const auto lookup = std::move(lookup_);
  if (state != 0) return;
  named_.clear();
  for (const auto* info = lookup->request.ar_result; info != nullptr; info = info->ai_next)
    if (const auto address = address_of(*info)) named_.insert(*address);
  freeaddrinfo(lookup->request.ar_result);
  tell();
}

void ServerAddresses::tell() {
  auto now = named_;
  for (const auto& [peer, time] : peers_) now.insert(peer);
  if (now == told_) return;
  told_ = std::move(now);
  on_change_(told_);
}

}  // namespace ipvsproxier::access
