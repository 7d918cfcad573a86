#include "test/fakes/scripted_transport.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ipvsproxier::test {

namespace {

constexpr const char* kServer = "https://api.test:6443";

}  // namespace

class ScriptedTransport::ScriptedExchange final : public access::Exchange {
 public:
  explicit ScriptedExchange(Call& call) : call_(call) {}
  ScriptedExchange(const ScriptedExchange&) = delete;
  ScriptedExchange& operator=(const ScriptedExchange&) = delete;
  ~ScriptedExchange() override { call_.handler_ = nullptr; }

  std::optional<std::chrono::steady_clock::time_point> sent() const override { return call_.sent_; }
  std::string server() const override { return kServer; }
  void refuse_credentials() override { ++call_.owner_.refused_credentials; }
  void distrust_connection() override { ++call_.owner_.distrusted_connections; }

 private:
  Call& call_;
};

bool ScriptedTransport::Call::head(int status, std::optional<std::chrono::seconds> retry_after) {
  if (!is_open() || !sent_) throw std::logic_error("an answer to nobody");
  if (std::exchange(head_told_, true)) throw std::logic_error("a second head");
  handler_->on_head({.status = status, .retry_after = retry_after});
  return is_open();
}

bool ScriptedTransport::Call::send(std::string_view body) {
  if (is_open() && !head_told_) throw std::logic_error("a body without a head");
  while (is_open() && !body.empty()) {
    const auto chunk = body.substr(0, std::max<std::size_t>(owner_.piece(), 1));
    body.remove_prefix(chunk.size());
    // A copy, so that a chunk that is kept for later is found out.
    const std::vector<char> bytes(chunk.begin(), chunk.end());
    handler_->on_chunk({bytes.data(), bytes.size()});
  }
  return is_open();
}

void ScriptedTransport::Call::finish() {
  if (!is_open() || !head_told_) throw std::logic_error("an end that cannot be");
  std::exchange(handler_, nullptr)->on_end({});
}

void ScriptedTransport::Call::fail(const std::string& cause, netlink::ErrorKind kind) {
  if (!is_open()) throw std::logic_error("a failure of nothing");
  std::exchange(handler_, nullptr)
      ->on_end(netlink::Error{.kind = kind, .where = std::string(kServer) + ": " + cause});
}

void ScriptedTransport::Call::answer(int status, std::string_view body) {
  if (head(status) && send(body)) finish();
}

std::unique_ptr<access::Exchange> ScriptedTransport::open(access::Request request,
                                                          access::ResponseHandler& handler) {
  auto& call = calls_.emplace_back(std::move(request), handler, *this);
  if (!waits) call.sent_ = std::chrono::steady_clock::time_point::min();
  return std::make_unique<ScriptedExchange>(call);
}

ScriptedTransport::Call& ScriptedTransport::last() {
  if (!is_waited_for()) throw std::logic_error("no request is waiting for an answer");
  return calls_.back();
}

std::size_t ScriptedTransport::open_calls() const {
  return static_cast<std::size_t>(
      std::count_if(calls_.begin(), calls_.end(), [](const auto& call) { return call.is_open(); }));
}

std::vector<std::string> ScriptedTransport::take_targets() {
  constexpr std::string_view kLimit = "timeoutSeconds=";
  std::vector<std::string> targets;
  for (; told_ < calls_.size(); ++told_) {
    auto target = calls_[told_].request().target;
    if (const auto at = target.find(kLimit); at != std::string::npos)
      target.replace(at + kLimit.size(), 3, "N");
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace ipvsproxier::test
