#pragma once

// TextStore: very many short texts, packed: each takes four bytes more than it is long, and a
// number of four bytes to be found by. They never move and stay until the end. One thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ipvsproxier::inspect {

class TextStore {
 public:
  using Id = std::uint32_t;  // of one store

  Id add(std::string_view text);
  // The same for the same text: of those that many share.
  Id intern(std::string_view text);
  std::string_view at(Id id) const;

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 16U;

  // A text begins in the first kBlockBytes of its block: an id is the block's number and where. One
  // that is larger than a block has one of its own size.
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0;  // of the last block
  std::size_t size_ = 0;  // of the last block
  std::unordered_map<std::string_view, Id> shared_;
};

}  // namespace ipvsproxier::inspect
