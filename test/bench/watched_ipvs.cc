#include "test/bench/watched_ipvs.h"

#include <algorithm>
#include <stdexcept>

#include "test/bench/kernel_world.h"

namespace ipvsproxier::bench {
namespace {

bool is_about(const netlink::IpvsOp& op, const netlink::RealServerKey& server) {
  if (const auto* add = std::get_if<netlink::AddServer>(&op)) return add->server.key == server;
  if (const auto* edit = std::get_if<netlink::EditServer>(&op)) return edit->server.key == server;
  return false;
}

}  // namespace

void WatchedIpvsTable::expect(const netlink::RealServerKey& server) {
  expected_ = server;
  expects_ = true;
}

Watched WatchedIpvsTable::wait() {
  if (!done_.try_acquire_for(std::chrono::seconds(10)))
    throw std::runtime_error("a change did not reach the kernel");
  return watched_;
}

std::vector<netlink::Status> WatchedIpvsTable::apply(std::span<const netlink::IpvsOp> ops) {
  const double start = now_ms();
  const auto asked = asked_.load();
  doing_ = ops.empty() || std::holds_alternative<netlink::DeleteServer>(ops.front()) ? "removes"
                                                                                     : "writes";
  auto outcomes = table_.apply(ops);
  doing_ = "";
  asked_ += ops.size();
  const double end = now_ms();
  if (!ops.empty() && std::holds_alternative<netlink::AddServer>(ops.front()))
    addition_ms_ += end - start;
  const bool about = expects_ && std::any_of(ops.begin(), ops.end(), [&](const auto& op) {
                       return is_about(op, expected_);
                     });
  if (about) {
    expects_ = false;
    watched_ = {start, end, asked};
    done_.release();
  }
  return outcomes;
}

}  // namespace ipvsproxier::bench
