#include "test/kernel/netns.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace ipvsproxier::test {
namespace {

using netlink::UniqueFd;

// Not /proc/self: that is the main thread's namespace on every thread.
UniqueFd current_netns() {
  UniqueFd fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!fd) throw std::system_error(errno, std::generic_category(), "open the network namespace");
  return fd;
}

void enter(int fd) {
  if (::setns(fd, CLONE_NEWNET) < 0) {
    throw std::system_error(errno, std::generic_category(), "enter a network namespace");
  }
}

// Without a process: starting one takes 30 ms in a guest, and a cluster has many namespaces.
void bring_up_lo() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", sizeof "lo");
  request.ifr_flags = IFF_UP;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) < 0) {
    throw std::system_error(errno, std::generic_category(), "bring lo up");
  }
}

struct ClosePipe {
  void operator()(FILE* pipe) const { ::pclose(pipe); }
};

void configure(const VethEnd& end) {
  std::string lines;
  std::istringstream words(end.addresses);
  for (std::string address; words >> address;) {
    lines += "addr add " + address + " dev " + end.name;
    lines += address.find(':') == std::string::npos ? "\n" : " nodad\n";
  }
  end.netns.ip(lines + "link set " + end.name + " up\n");
}

}  // namespace

Netns::Netns() {
  const UniqueFd previous = current_netns();
  if (::unshare(CLONE_NEWNET) < 0) {
    throw std::system_error(errno, std::generic_category(), "make a network namespace");
  }
  fd_ = current_netns();
  bring_up_lo();
  enter(previous.get());
}

std::string Netns::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

void Netns::ip(const std::string& lines) const {
  inside([&] {
    FILE* pipe = ::popen("ip -batch -", "we");
    if (pipe == nullptr) throw std::system_error(errno, std::generic_category(), "start ip");
    std::fputs(lines.c_str(), pipe);
    if (::pclose(pipe) != 0) throw std::runtime_error("ip -batch failed:\n" + lines);
  });
}

EnterNetns::EnterNetns(const Netns& netns) : previous_(current_netns()) {
  enter(netns.fd());
}

EnterNetns::~EnterNetns() {
  // Staying in the wrong namespace would make every later test lie.
  if (::setns(previous_.get(), CLONE_NEWNET) < 0) {
    std::perror("leave a network namespace");
    std::_Exit(125);
  }
}

void connect(const VethEnd& left, const VethEnd& right) {
  left.netns.ip("link add " + left.name + " type veth peer name " + right.name + " netns " +
                right.netns.path() + "\n");
  configure(left);
  configure(right);
}

std::string shell(const std::string& command) {
  std::unique_ptr<FILE, ClosePipe> pipe(::popen(command.c_str(), "re"));
  if (pipe == nullptr) throw std::system_error(errno, std::generic_category(), command);
  std::string output;
  std::array<char, 4096> chunk{};
  while (const std::size_t size = std::fread(chunk.data(), 1, chunk.size(), pipe.get())) {
    output.append(chunk.data(), size);
  }
  if (::pclose(pipe.release()) != 0) throw std::runtime_error("failed: " + command + "\n" + output);
  return output;
}

}  // namespace ipvsproxier::test
