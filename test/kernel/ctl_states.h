#pragma once

// Random virtual server tables as lines for ipvsadm -R, and traffic to them.

#include <random>
#include <string>

#include "test/kernel/netns.h"

namespace ipvsproxier::test {

// A namespace with addresses that the tables' reachable virtual and real servers have. The calling
// thread is in it.
class CtlWorld {
 public:
  CtlWorld();

 private:
  FreshNetns netns_;
};

// Up to a dozen services of all kinds with up to eight servers each; some lines ipvsadm or the
// kernel may refuse (the same service twice). `unsigned_marks`: firewall marks too that ipvsadm
// prints as negative numbers, and then cannot read.
std::string random_table(std::mt19937& random, bool unsigned_marks);

// Replaces the table.
void restore_table(const std::string& lines);

// Datagrams and connections to the virtual servers that CtlWorld makes reachable, and to the first
// firewall marks.
void send_traffic(std::mt19937& random);

// So many datagrams of 60,000 bytes from one socket.
void send_much(const std::string& ip, std::uint16_t port, int datagrams);

}  // namespace ipvsproxier::test
