#pragma once

// Tables of nf_tables that other programs write on a node, for tests among them.

#include <string>
#include <vector>

namespace ipvsproxier::test {

struct NftWorld {
  std::string name;
  std::string up;    // shell commands
  std::string down;  // that remove it
};

// A host's firewall, docker, CNI's portmap, firewalld and Calico as they are on a node of Cluster
// (cluster.h), and docker through iptables-nft. Of what they shut out, TCP 22 and 80, UDP 80 and
// some node ports are excepted.
std::vector<NftWorld> nft_worlds();

}  // namespace ipvsproxier::test
