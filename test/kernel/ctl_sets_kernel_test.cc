#include <catch2/catch.hpp>

#include "test/kernel/netns.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

std::string sets(const std::string& words) {
  return shell(ipvsctl_word() + " sets " + words + " 2>&1 || echo status $?");
}

TEST_CASE("kernel: ipvsctl sets lists what ipset has of ours") {
  FreshNetns netns;
  CHECK(sets("").ends_with("Most\nneither iptables nor nf_tables has sets of ours\n"));
  shell("ipset restore <" + data_word("reference/shop/masqall-mh/kernel/ipset-headers.txt"));
  shell("ipset restore <" + data_word("reference/shop/masqall-mh/kernel/ipset-members.txt"));
  shell("ipset create other hash:ip; ipset add other 10.0.0.1");
  CHECK(shell(ipvsctl_word() + " sets | awk 'NR > 1 { print $1, $4 }' | sort") ==
        shell("for set in $(ipset list -n | grep ^KUBE-); do echo $set $(ipset list $set | sed "
              "'1,/^Members/d' | wc -l); done | sort"));
  for (const auto* name : {"KUBE-CLUSTER-IP", "KUBE-LOOP-BACK", "KUBE-NODE-PORT-TCP"})
    CHECK(shell(ipvsctl_word() + " sets -n " + name + " | sort") ==
          shell("ipset list " + std::string(name) + " | sed '1,/^Members/d' | sort"));
}

TEST_CASE("kernel: ipvsctl sets says what is not there, and which privilege is missing") {
  FreshNetns netns;
  CHECK(sets("KUBE-CLUSTER-IP").find("there is no set of the name KUBE-CLUSTER-IP") !=
        std::string::npos);
  CHECK(sets("KUBE-CLUSTER-IP").find("status 1\n") != std::string::npos);
  const auto text = shell("setpriv --bounding-set -net_admin --inh-caps -net_admin " +
                          ipvsctl_word() + " sets 2>&1 || echo status $?");
  CHECK(text.find("needs CAP_NET_ADMIN") != std::string::npos);
  CHECK(text.find("status 1\n") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::test
