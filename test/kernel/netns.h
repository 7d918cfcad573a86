#pragma once

// Network namespaces for kernel tests: made fresh, entered for a while, joined by veth pairs.
//
// A failure to make or enter one throws std::runtime_error: a test cannot go on without it. Not for
// the daemon's code.

#include <string>
#include <string_view>
#include <utility>

#include "netlink/unique_fd.h"

namespace ipvsproxier::test {

// A network namespace without a name, with `lo` up. It lives as long as this object, a socket or a
// thread in it.
class Netns {
 public:
  Netns();  // the calling thread stays where it is

  int fd() const { return fd_.get(); }
  // Where a child process finds it: `ip link ... netns PATH`.
  std::string path() const;

  // Runs fn() on the calling thread inside the namespace and gives back what it returns.
  template <typename Fn>
  decltype(auto) inside(Fn&& fn) const;

  // Runs the lines of an `ip -batch`: "addr add 10.0.0.1/24 dev eth0". One process.
  void ip(const std::string& lines) const;

 private:
  netlink::UniqueFd fd_;
};

// Moves the calling thread into a namespace, and back at destruction.
class EnterNetns {
 public:
  explicit EnterNetns(const Netns& netns);
  EnterNetns(const EnterNetns&) = delete;
  EnterNetns& operator=(const EnterNetns&) = delete;
  ~EnterNetns();

 private:
  netlink::UniqueFd previous_;
};

// The usual first line of a kernel test: a fresh namespace around the rest of the scope.
class FreshNetns {
 public:
  FreshNetns() : enter_(netns_) {}
  const Netns& netns() const { return netns_; }

 private:
  Netns netns_;
  EnterNetns enter_;
};

// One end of a veth pair; addresses with prefix length, separated by blanks; it is brought up. IPv6
// addresses skip duplicate address detection.
struct VethEnd {
  const Netns& netns;
  std::string name;
  std::string addresses;
};

void connect(const VethEnd& left, const VethEnd& right);

// Runs a shell command in the namespace of the calling thread; its output. Throws if it fails.
std::string shell(const std::string& command);

template <typename Fn>
decltype(auto) Netns::inside(Fn&& fn) const {
  const EnterNetns enter(*this);
  return std::forward<Fn>(fn)();
}

}  // namespace ipvsproxier::test
