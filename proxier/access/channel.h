#pragma once

// Channel: the connections that exchanges with one server share, and a check whether they still
// reach the server. Main thread only.
//
// TCP notices when the peer vanishes, but not when the server behind a proxy vanishes. Therefore,
// after 30 s without data, the channel sends GET /livez (which the server answers without queueing)
// on the shared connection; any answer proves that the path works, and the traffic keeps idle
// connections open in proxies. Without an answer within 15 s all exchanges of the channel are told
// that their path is dead. They are told so as well if the question needed a new connection: the
// shared one then takes no more requests (GOAWAY), and its state cannot be checked. All this
// applies to HTTP/2 only: with HTTP/1.1 each exchange has its own connection, and a question on
// another connection proves nothing.

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "netlink/result.h"
#include "proxier/access/cluster_access.h"
#include "proxier/access/transport.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::access {

class HttpTransfer;

struct PathCheck {
  std::chrono::milliseconds silence = std::chrono::seconds(30);
  std::chrono::milliseconds patience = std::chrono::seconds(15);
};

class Channel final : private ResponseHandler {
 public:
  // A request in progress.
  class Member {
   public:
    Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    virtual ~Member() = default;

    // The member has been removed. The callback must not destroy anything of the channel.
    virtual void on_dead_path(const netlink::Error& error) = 0;
  };

  // A channel to the server of `access`. `name` is the name of its deadline. The loop must outlive
  // it.
  Channel(loop::MainLoop& loop, std::string name, ClusterAccess access, const PathCheck& check);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() override;

  // Whether a new exchange with this access may use the channel.
  bool is_for(const ClusterAccess& access) const;
  // New exchanges no longer use the channel.
  void retire() { retired_ = true; }

  // For HttpTransfers.
  const std::shared_ptr<void>& connections() const { return connections_; }
  void join(Member& member, const ClusterAccess& access);
  void leave(Member& member);
  // Data arrived for a member.
  void heard(bool is_multiplexed);

 private:
  void on_head(const ResponseHead& head) override;
  void on_chunk(std::string_view chunk) override;
  void on_end(const netlink::Status& outcome) override;

  void wait_until(loop::MainLoop::Clock::time_point when);
  void check();
  void ask();
  void end_question();
  void give_up(const std::string& why);

  loop::MainLoop& loop_;
  const std::string name_;
  const PathCheck check_;
  const std::shared_ptr<void> connections_;
  ClusterAccess access_;  // of the last member that joined
  std::set<Member*> members_;
  bool retired_ = false;
  bool multiplexed_ = false;
  bool waiting_ = false;  // the deadline is set
  loop::MainLoop::Clock::time_point heard_;
  HttpTransfer* question_ = nullptr;  // owned by the loop
  unsigned failed_questions_ = 0;     // consecutive
};

}  // namespace ipvsproxier::access
