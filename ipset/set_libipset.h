#pragma once

// LibipsetTable: SetTable of the network namespace that it was opened in. Writes go through
// libipset's session with typed data; listings over a channel of our own, because libipset can only
// print them. Neither prints nor exits. libipset keeps global state (its list of types, its cache
// of set names): one thread in the whole process.
//
// Errors beside SetTable's: `denied` without CAP_NET_ADMIN; `missing` naming the kernel module
// (ip_set, ip_set_hash_ipport ...) that is not there.
//
// What the kernel refuses (net/netfilter/ipset, Linux 6.1), as `malformed`: the unspecified address
// in hash:ip, a prefix of length 0 in hash:ip,port,net, an address of the other family. A hash set
// that is full refuses with `io`; it may take a few elements more than maxelem, because the kernel
// first looks at a share of the table only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipset/set_codec.h"
#include "ipset/set_table.h"

struct ipset_session;

namespace ipvsproxier::netlink {
class NlChannel;
}

namespace ipvsproxier::ipset {

struct LibipsetReport;

class LibipsetTable final : public SetTable {
 public:
  // `missing` without nfnetlink.
  static Result<std::unique_ptr<LibipsetTable>> open();
  ~LibipsetTable() override;

  Status ensure(const SetSpec& spec) override;
  Result<std::optional<ListedSet>> list(const std::string& name) override;
  // Of a hash:net, a kind that others have; nullopt if there is none of this name.
  Result<std::optional<std::vector<NetMember>>> list_nets(const std::string& name);
  Result<std::optional<SetPart>> begin_list(const std::string& name) override;
  Result<SetPart> next_list() override;
  std::vector<Status> apply(const SetSpec& spec, std::span<const ElementOp> ops) override;
  Status destroy(const std::string& name) override;

  // Write commands given to the kernel so far: creations, swaps, destructions, and elements added
  // or removed, successful or not. A state that is already right costs none.
  std::uint64_t writes() const { return writes_; }
  // Several elements are one message; libipset does not tell how many.
  std::uint64_t requests() const override;

 private:
  struct SessionDeleter {
    void operator()(ipset_session* session) const;
  };
  using Session = std::unique_ptr<ipset_session, SessionDeleter>;

  // One apply(): what is the same for all elements, and their outcomes.
  struct Batch;

  using Channel = std::unique_ptr<netlink::NlChannel>;

  // A dump keeps its socket busy, so that a listing in parts has one of its own.
  LibipsetTable(Session session, Channel channel, Channel parts);

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
  Channel channel_;
  Channel parts_;
  std::string listed_;                 // in parts
  std::optional<SetListing> listing_;  // while there are some left
  std::uint64_t writes_ = 0;
};

}  // namespace ipvsproxier::ipset
