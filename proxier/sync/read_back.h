#pragma once

// ReadBack: reads the kernel in small parts and finds differences from the mirror. The mirror is
// our copy of the kernel state; only our own successful operations and these parts change it. The
// caller may write between two parts, so each part is compared with the current mirror. Sync thread
// only.
//
// Order: sets (in ipset::sets_of()), rules, virtual services, their real servers; so guards are
// known and repaired before what they guard. Links and addresses are not among the parts:
// LinkEvents report their changes, and list_bound() reads them at once.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/links/link_table.h"
#include "netlink/links/link_types.h"
#include "netlink/result.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/differences.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// The result of one step.
struct PartRead {
  plan::Scope differs;  // keys where kernel and mirror differ
  plan::Scope news;     // keys in the kernel of a kind about which the mirror had nothing
  // A whole kind of entries became known: operations that waited for it may run.
  bool look_at_all = false;
  bool foreign_read = false;  // the virtual services of other programs are known anew
  // Stores the reading in the mirror; empty if the mirror already agrees. A part that could not be
  // read becomes unknown.
  std::function<void(plan::ActualState&)> take;
  std::vector<Failure> failures;
};

class ReadBack {
 public:
  static constexpr std::size_t kServicesAStep = 16;

  ReadBack() = default;  // idle until begin()

  // Starts from the beginning, even during a reading.
  void begin() { *this = ReadBack(Stage::sets); }
  bool running() const { return stage_ != Stage::done; }

  // Reads the next part that concerns `desired`: a part of a set, the rules of a family, some
  // virtual services, or the real servers of some. Only while running().
  PartRead step(Kernel& kernel, const plan::DesiredState& desired, const plan::ActualState& mirror);

  // Call with operations that were tried between two parts.
  void note(const plan::Transaction& transaction);

 private:
  enum class Stage : std::uint8_t { sets, rules, services, servers, done };
  // A set whose listing is in progress.
  struct SetReading {
    std::optional<ipset::ListedSet> set;  // without its elements; nullopt: the set does not exist
    ipset::ElementSet elements;
    ipset::ElementSet written;  // elements written since the listing began

    void note(const plan::SetChange& change);
    // True after the last part.
    bool take(ipset::SetTable::SetPart part);
  };

  explicit ReadBack(Stage stage) : stage_(stage) {}

  PartRead read_set(Kernel& kernel, const plan::DesiredState& desired,
                    const plan::ActualState& mirror);
  static void compare_set(SetReading reading,
                          const std::pair<const plan::SetKey, ipset::ElementSet>& desired,
                          const plan::ActualState& mirror, PartRead& part);
  netlink::Result<bool> list_set(ipset::SetTable& sets, const std::string& name);
  PartRead read_rules(Kernel& kernel, const plan::DesiredState& desired,
                      const plan::ActualState& mirror);
  PartRead read_services(Kernel& kernel, const plan::DesiredState& desired,
                         const plan::ActualState& mirror);
  std::set<netlink::VirtualServiceKey> all_foreign(Kernel& kernel,
                                                   const plan::ActualState& mirror) const;
  netlink::Result<netlink::IpvsTable::ServicesPart> list_services(Kernel& kernel,
                                                                  const plan::ActualState& mirror);
  bool is_news(const netlink::VirtualService& service, const plan::DesiredState& desired,
               const plan::ActualState& mirror);
  PartRead read_servers(Kernel& kernel, const plan::ActualState& mirror);

  Stage stage_ = Stage::done;
  std::size_t sets_read_ = 0;              // of ipset::sets_of()
  std::optional<SetReading> set_reading_;  // of the next set
  // The last entries that were read.
  std::optional<netlink::Family> family_;
  std::optional<netlink::VirtualServiceKey> service_;
  bool listing_ = false;                          // virtual services are being listed in parts
  std::set<netlink::VirtualServiceKey> written_;  // services written since that listing began
  std::set<netlink::VirtualServiceKey> foreign_;  // that it had so far
};

// Reads all parts at once, without links and addresses, into the empty `state`, and the sets of the
// packet filter that is not ours. Parts that could not be read stay absent.
std::vector<Failure> read_kernel(Kernel& kernel, const plan::DesiredState& desired,
                                 plan::ActualState& state);

// --- where VIPs are bound

// Everything that makes an address local to this node.
struct BoundAddresses {
  std::vector<netlink::InterfaceAddress> addresses;  // on all links
  std::vector<netlink::IpAddress> local_routes;      // only ours
};

netlink::Result<BoundAddresses> list_bound(netlink::LinkTable& links);

// Stores the bindings on our dummy links and by our local routes in the state.
void take_bindings(const BoundAddresses& all, const plan::Differences& differences,
                   plan::ActualState& state);

}  // namespace ipvsproxier::sync
