#pragma once

// ReadBack: reads what the kernel holds in small parts and says where it is not what is believed
// (the mirror, which only our own successful operations and these parts change). Between two parts
// the caller may write, so each part is compared with the mirror as it is then. Sync thread only.
//
// Order: sets (as plan::kAddOrder), rules, virtual services, their real servers; what guards is
// known, and put right, before what it guards. The dummy link is not here: what is done to it is
// told by LinkEvents.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "proxier/plan/actual_state.h"
#include "proxier/plan/transaction.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// What was read in one step.
struct PartRead {
  plan::Scope differs;       // where the kernel is not what the mirror says
  plan::Scope news;          // what the kernel holds where the mirror said nothing
  bool look_at_all = false;  // a whole kind of thing became known: what waited for it may be done
  // Puts the reading in its place in the mirror; none where it is what is there. What could not be
  // read becomes unknown.
  std::function<void(plan::ActualState&)> take;
  std::vector<Failure> failures;
};

class ReadBack {
 public:
  static constexpr std::size_t kServicesAStep = 16;

  ReadBack() = default;  // nothing is to be read

  // From the beginning, whatever was read before.
  void begin() { *this = ReadBack(Stage::sets); }
  bool running() const { return stage_ != Stage::done; }

  // Reads the next part of what concerns `desired`: some of a set, the rules of a family, some
  // virtual services, or the real servers of some. Only while running().
  PartRead step(Kernel& kernel, const plan::DesiredState& desired, const plan::ActualState& mirror);

  // These operations were tried between two parts.
  void note(const plan::Transaction& transaction);

 private:
  enum class Stage : std::uint8_t { sets, rules, services, servers, done };
  // A set while it is listed.
  struct SetReading {
    std::optional<ipset::ListedSet> set;  // but for its elements; nullopt: there is none
    ipset::ElementSet elements;
    ipset::ElementSet written;  // since it began

    void note(const plan::SetChange& change);
    // True: that was the last.
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
  PartRead read_services(Kernel& kernel, const plan::ActualState& mirror);
  netlink::Result<netlink::IpvsTable::ServicesPart> list_services(Kernel& kernel,
                                                                  const plan::ActualState& mirror);
  bool is_known(const netlink::VirtualService& service, const plan::ActualState& mirror) const;
  PartRead read_servers(Kernel& kernel, const plan::ActualState& mirror);

  Stage stage_ = Stage::done;
  std::size_t sets_read_ = 0;              // in plan::kAddOrder
  std::optional<SetReading> set_reading_;  // of the next set
  // The last ones that were read.
  std::optional<netlink::Family> family_;
  std::optional<netlink::VirtualServiceKey> service_;
  bool listing_ = false;                          // virtual services, in parts
  std::set<netlink::VirtualServiceKey> written_;  // since it began
};

// All parts at once, without the dummy link's, into `state`, which knows nothing. What could not be
// read is absent.
std::vector<Failure> read_kernel(Kernel& kernel, const plan::DesiredState& desired,
                                 plan::ActualState& state);

}  // namespace ipvsproxier::sync
