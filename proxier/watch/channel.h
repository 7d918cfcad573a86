#pragma once

// Channel: the connections that exchanges with one server share, and whether they still lead there.
// The main thread's.
//
// TCP notices a peer that has vanished, but not that nobody is behind the next proxy. So once
// nothing came for 30 s the server is asked for a sign of life (GET /livez, which waits in no queue
// there) on the connection that the exchanges share; any answer will do, and proxies that cut idle
// connections see traffic. When none comes within 15 s, all exchanges of the channel are told that
// their path is dead; so they are when the question needed another connection, for then theirs
// takes no more (GOAWAY) and nothing tells whether it lives. Only where the server speaks HTTP/2:
// without, each exchange has a connection of its own, and a question on another one tells nothing
// about it.

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "netlink/result.h"
#include "proxier/loop/main_loop.h"
#include "proxier/watch/cluster_access.h"
#include "proxier/watch/transport.h"

namespace ipvsproxier::watch {

class HttpTransfer;

struct PathCheck {
  std::chrono::milliseconds silence = std::chrono::seconds(30);
  std::chrono::milliseconds patience = std::chrono::seconds(15);
};

class Channel final : private ResponseHandler {
 public:
  // A request that is on its way, or its answer.
  class Member {
   public:
    Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    virtual ~Member() = default;

    // It is no member any more. Must not destroy anything of the channel.
    virtual void on_dead_path(const netlink::Error& error) = 0;
  };

  // To the server of `access`. `name` is that of its deadline. The loop outlives it.
  Channel(loop::MainLoop& loop, std::string name, ClusterAccess access, const PathCheck& check);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() override;

  // Whether a new exchange may go over it.
  bool is_for(const ClusterAccess& access) const;
  // Not for new exchanges any more.
  void retire() { retired_ = true; }

  // For HttpTransfers.
  const std::shared_ptr<void>& connections() const { return connections_; }
  void join(Member& member, const ClusterAccess& access);
  void leave(Member& member);
  // Something came for a member.
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
  ClusterAccess access_;  // of who joined last
  std::set<Member*> members_;
  bool retired_ = false;
  bool multiplexed_ = false;
  bool waiting_ = false;  // for the deadline
  loop::MainLoop::Clock::time_point heard_;
  HttpTransfer* question_ = nullptr;  // the loop's
  unsigned failed_questions_ = 0;     // in a row
};

}  // namespace ipvsproxier::watch
