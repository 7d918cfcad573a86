#include "ipset/nft/nft_chains.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

constexpr const char* kListing = R"(table ip filter {
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
	chain KUBE-FORWARD {
	}
	chain INPUT {
		type filter hook input priority filter; policy accept;
	}
	chain KUBE-NODE-PORT {
	}
}
table inet host {
	chain in {
		type filter hook input priority 10; policy drop;
	}
}
)";

TEST_CASE("chains of nf_tables are read from what libnftables prints") {
  const auto chains = read_nft_chains(kListing);
  REQUIRE(chains.size() == 5);
  CHECK(chains[0] == NftChain{"ip", "filter", "FORWARD", "forward", true});
  CHECK(chains[1] == NftChain{"ip", "filter", "KUBE-FORWARD", "", false});
  CHECK(chains[4] == NftChain{"inet", "host", "in", "input", true});
  CHECK(read_nft_chains("type filter hook input\nchain").size() == 1);
  CHECK(read_nft_chains("").empty());
}

TEST_CASE("what accepts where its own table drops is needed") {
  const auto chains = read_nft_chains(kListing);
  CHECK(accepts_what_drops(chains[1], chains));
  CHECK_FALSE(accepts_what_drops(chains[3], chains));  // INPUT of its table accepts
  CHECK_FALSE(accepts_what_drops({"ip6", "filter", "KUBE-FORWARD", "", false}, chains));
  CHECK_FALSE(accepts_what_drops({"ip", "filter", "KUBE-IPVS-FILTER", "", false}, chains));
}

}  // namespace
}  // namespace ipvsproxier::ipset
