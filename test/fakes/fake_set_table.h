#pragma once

// FakeSetTable: IP sets in memory, which refuse what the kernel refuses. The contract in
// test/contract/set_contract.h holds for both. Ordered, so that failures print stably.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ipset/sets/set_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeSetTable final : public ipset::SetTable {
 public:
  // Elements in a part of a listing.
  static constexpr std::size_t kAPart = 16;

  ipset::Status ensure(const ipset::SetSpec& spec) override;
  ipset::Result<std::optional<ipset::ListedSet>> list(const std::string& name) override;
  ipset::Result<std::optional<SetPart>> begin_list(const std::string& name) override;
  ipset::Result<SetPart> next_list() override;
  std::vector<ipset::Status> apply(const ipset::SetSpec& spec,
                                   std::span<const ipset::ElementOp> ops) override;
  ipset::Status destroy(const std::string& name) override;

  // Consulted before every operation and listing: "make set NAME", "add NAME ELEMENT",
  // "remove NAME ELEMENT", "list set NAME".
  FaultInjector faults;

  // Called after every operation on an element, whatever became of it.
  std::function<void(const std::string& set, const ipset::ElementOp&)> after;

  // What list() answers, past all faults.
  ipset::Result<std::optional<ipset::ListedSet>> read(const std::string& name) const;
  // A set that does not exist is empty.
  bool contains(const std::string& name, const ipset::Element& element) const;
  bool exists(const std::string& name) const { return sets_.contains(name); }
  bool is_empty(const std::string& name) const;

  // What others do in the same kernel.
  void make_foreign(const std::string& name,
                    const std::string& type);  // of a type that is not ours
  void vanish(bool destroyed);                 // all sets are flushed, or destroyed
  void note_foreign_hands();                   // none is as it was, perhaps
  // It is not, and was not listed from its beginning to its end since.
  bool is_unseen(const std::string& name) const { return unseen_.contains(name); }
  void hold(const std::string& name);  // a rule refers to it
  void release(const std::string& name);

  // Write commands so far, counted as LibipsetTable does.
  std::uint64_t writes() const { return writes_; }

 private:
  struct StoredSet {
    ipset::SetSpec spec;
    std::set<ipset::Element> elements;
  };

  void note_foreign_hand(const std::string& name);
  void end_listing(const std::string& name);
  ipset::Status make(const ipset::SetSpec& spec);
  ipset::Status apply_one(const std::string& name, const ipset::ElementOp& op);

  std::map<std::string, StoredSet> sets_;
  std::map<std::string, std::string> foreign_;  // name -> type
  std::set<std::string> held_;
  std::uint64_t writes_ = 0;
  std::string listing_;                   // in parts; "": none
  std::optional<ipset::Element> listed_;  // the last one
  std::set<std::string> unseen_;
  bool sees_all_ = true;  // the listing in parts
};

}  // namespace ipvsproxier::test
