#pragma once

// LibipsetTable: SetTable of the network namespace in which it was made. One that could not be
// opened opens itself when it is used (netlink::NlChannel). Writes go through
// libipset's session with typed data; listings use our own netlink channel, because libipset can
// only print them. The library neither prints nor exits the process. libipset has global state (a
// list of types, a cache of set names): only one thread of the process may use it.
//
// Errors besides those of SetTable: `denied` without CAP_NET_ADMIN; `missing` with the name of the
// absent kernel module (ip_set, ip_set_hash_ipport ...).
//
// Elements that the kernel refuses as `malformed` (net/netfilter/ipset, Linux 6.1): the unspecified
// address in hash:ip, a prefix of length 0 in hash:ip,port,net, an address of the other family. A
// full hash set refuses with `io`; it may take a few elements more than maxelem, because the kernel
// first counts only a share of the table.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipset/sets/set_codec.h"
#include "ipset/sets/set_table.h"
#include "netlink/nl_channel.h"

struct ipset_session;

namespace ipvsproxier::ipset {

struct LibipsetReport;

class LibipsetTable : public SetTable {
 public:
  // `missing` without nfnetlink.
  static Result<std::unique_ptr<LibipsetTable>> open();
  explicit LibipsetTable(const netlink::NlOpening& opening);
  Status ready();

  Status ensure(const SetSpec& spec) override;
  Result<std::optional<ListedSet>> list(const std::string& name) override;
  // The elements of a hash:net of another program; nullopt if there is no set of this name.
  Result<std::optional<std::vector<NetMember>>> list_nets(const std::string& name);
  Result<std::optional<SetPart>> begin_list(const std::string& name) override;
  Result<SetPart> next_list() override;
  std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) override;
  Status destroy(const std::string& name) override;

  // Write commands given to the kernel so far, successful or not: creations, swaps, destructions,
  // and added or removed elements. State that is already right costs no command.
  std::uint64_t writes() const { return writes_; }
  // Each element counts as one request: libipset puts several into one message without telling how
  // many.
  std::uint64_t requests() const override;

 private:
  struct SessionDeleter {
    void operator()(ipset_session* session) const;
  };
  using Session = std::unique_ptr<ipset_session, SessionDeleter>;

  // The state of one apply(): the common values of all elements, and the outcomes.
  struct Batch;

  Status check(const std::string& name);
  Result<std::optional<SetListing>> dump(const std::string& name, ListDepth depth);
  void end_listing(const std::string& name);
  Status create(const SetSpec& spec);
  Status replace(const SetSpec& spec);
  Status swap(const std::string& one, const std::string& other);
  LibipsetReport take_report();
  bool queue(Batch& batch, std::size_t index, std::uint32_t line);
  std::size_t run_aggregated(Batch& batch, std::size_t first);
  std::size_t run_single(Batch& batch, std::size_t index);

  Session session_;
  netlink::NlChannel channel_;
  netlink::NlChannel parts_;           // a dump keeps its socket busy: that of the listing in parts
  std::string listed_;                 // the set that is listed in parts
  std::optional<SetListing> listing_;  // while parts remain
  std::uint64_t writes_ = 0;
};

}  // namespace ipvsproxier::ipset
