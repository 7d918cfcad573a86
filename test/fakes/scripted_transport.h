#pragma once

// ScriptedTransport: a Transport whose answers the test gives, step by step. It refuses what a real
// one cannot do: to answer an exchange that was cancelled or has ended, or to answer out of order.

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/access/transport.h"

namespace ipvsproxier::test {

class ScriptedTransport final : public access::Transport {
 public:
  // One exchange as the server sees it.
  class Call {
   public:
    explicit Call(access::Request request, access::ResponseHandler& handler,
                  ScriptedTransport& owner)
        : request_(std::move(request)), handler_(&handler), owner_(owner) {}

    const access::Request& request() const { return request_; }
    bool is_open() const { return handler_ != nullptr; }

    // Only with ScriptedTransport::waits: there are credentials now.
    void go(std::chrono::steady_clock::time_point now) { sent_ = now; }
    // Each answers false when the client has gone away, at once or while it was told.
    bool head(int status, std::optional<std::chrono::seconds> retry_after = {});
    bool send(std::string_view body);  // in pieces of ScriptedTransport::piece() bytes
    void finish();
    void fail(const std::string& cause,
              netlink::ErrorKind kind = netlink::ErrorKind::io);  // the server's name in front
    void answer(int status, std::string_view body);               // all of it

   private:
    friend class ScriptedTransport;

    access::Request request_;
    access::ResponseHandler* handler_;
    ScriptedTransport& owner_;
    bool head_told_ = false;
    std::optional<std::chrono::steady_clock::time_point> sent_;
  };

  [[nodiscard]] std::unique_ptr<access::Exchange> open(access::Request request,
                                                       access::ResponseHandler& handler) override;

  // How large the next chunk is; whole bodies unless set.
  std::function<std::size_t()> piece = [] { return std::string::npos; };
  std::size_t refused_credentials = 0;
  std::size_t distrusted_connections = 0;
  bool waits = false;  // new requests wait for credentials

  std::size_t count() const { return calls_.size(); }
  Call& call(std::size_t index) { return calls_.at(index); }
  // The newest, which must be open: what the client waits for.
  Call& last();
  bool is_waited_for() const { return !calls_.empty() && calls_.back().is_open(); }
  std::size_t open_calls() const;
  // Of all requests since the last call; the time limit of a watch, which is random, as "N".
  std::vector<std::string> take_targets();

 private:
  friend class Call;
  class ScriptedExchange;

  std::deque<Call> calls_;  // stable
  std::size_t told_ = 0;
};

}  // namespace ipvsproxier::test
