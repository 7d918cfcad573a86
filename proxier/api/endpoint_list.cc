#include "proxier/api/endpoint_list.h"

#include <span>

namespace ipvsproxier::api {

namespace {

constexpr unsigned kReady = 1;
constexpr unsigned kServing = 2;
constexpr unsigned kTerminating = 4;
constexpr unsigned kIpv6 = 8;
constexpr unsigned kHints = 16;

void put_number(std::string& bytes, std::size_t number) {
  for (; number >= 0x80; number >>= 7U) bytes += static_cast<char>(number | 0x80U);
  bytes += static_cast<char>(number);
}

void put_text(std::string& bytes, std::string_view text) {
  put_number(bytes, text.size());
  bytes += text;
}

void put_texts(std::string& bytes, const std::vector<std::string>& texts) {
  put_number(bytes, texts.size());
  for (const auto& text : texts) put_text(bytes, text);
}

// Takes bytes off the front; the encoding is our own, so they are there.
std::string_view take(std::string_view& bytes, std::size_t length) {
  const auto taken = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return taken;
}

std::size_t take_number(std::string_view& bytes) {
  std::size_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(bytes, 1).front());
    number |= static_cast<std::size_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return number;
  }
}

std::string_view take_text(std::string_view& bytes) {
  const auto length = take_number(bytes);
  return take(bytes, length);
}

void take_texts(std::string_view& bytes, std::vector<std::string_view>& texts) {
  for (auto left = take_number(bytes); left > 0; --left) texts.push_back(take_text(bytes));
}

netlink::IpAddress take_address(std::string_view& bytes, netlink::Family family) {
  const auto text = take(bytes, netlink::address_bits(family) / 8U);
  const std::span span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return netlink::IpAddress::from_bytes(family, span).value();
}

}  // namespace

EndpointList::EndpointList(const std::vector<Endpoint>& endpoints) {
  for (const auto& endpoint : endpoints) push_back(endpoint);
  shrink_to_fit();
}

void EndpointList::push_back(const Endpoint& endpoint) {
  // The structured binding names every field: a new field does not compile until it is encoded
  // here.
  const auto& [address, ready, serving, terminating, node_name, zone, target_name, zone_hints,
               node_hints] = endpoint;
  const bool has_hints = !zone_hints.empty() || !node_hints.empty();
  const bool is_v6 = address.family() == netlink::Family::ipv6;
  bytes_ += static_cast<char>((ready ? kReady : 0) | (serving ? kServing : 0) |
                              (terminating ? kTerminating : 0) | (is_v6 ? kIpv6 : 0) |
                              (has_hints ? kHints : 0));
  bytes_.append(reinterpret_cast<const char*>(address.bytes().data()), address.bytes().size());
  put_text(bytes_, node_name);
  put_text(bytes_, zone);
  put_text(bytes_, target_name);
  if (has_hints) {
    put_texts(bytes_, zone_hints);
    put_texts(bytes_, node_hints);
  }
  ++size_;
}

void EndpointList::const_iterator::read() {
  if (--left_ == 0) return;
  const auto flags = static_cast<unsigned char>(take(rest_, 1).front());
  view_.ready = (flags & kReady) != 0;
  view_.serving = (flags & kServing) != 0;
  view_.terminating = (flags & kTerminating) != 0;
  view_.address =
      take_address(rest_, (flags & kIpv6) != 0 ? netlink::Family::ipv6 : netlink::Family::ipv4);
  view_.node_name = take_text(rest_);
  view_.zone = take_text(rest_);
  view_.target_name = take_text(rest_);
  view_.zone_hints.clear();
  view_.node_hints.clear();
  if ((flags & kHints) == 0) return;
  take_texts(rest_, view_.zone_hints);
  take_texts(rest_, view_.node_hints);
}

std::vector<Endpoint> EndpointList::unpack() const {
  std::vector<Endpoint> endpoints;
  endpoints.reserve(size_);
  for (const auto& one : *this)
    endpoints.push_back({.address = one.address,
                         .ready = one.ready,
                         .serving = one.serving,
                         .terminating = one.terminating,
                         .node_name = std::string(one.node_name),
                         .zone = std::string(one.zone),
                         .target_name = std::string(one.target_name),
                         .zone_hints = {one.zone_hints.begin(), one.zone_hints.end()},
                         .node_hints = {one.node_hints.begin(), one.node_hints.end()}});
  return endpoints;
}

}  // namespace ipvsproxier::api
