#pragma once

// TextStore: packs very many short texts. Each takes its length plus four bytes, and a four-byte
// id. Texts never move, and stay until the store ends. One thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ipvsproxier::ctl {

class TextStore {
 public:
  using Id = std::uint32_t;  // valid in one store

  Id add(std::string_view text);
  // Returns the same id for the same text: for texts that repeat.
  Id intern(std::string_view text);
  std::string_view at(Id id) const;

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 16U;

  // A text begins in the first kBlockBytes of its block: an id is the block's number and the
  // offset. A text larger than a block gets a block of its own.
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0;  // of the last block
  std::size_t size_ = 0;  // of the last block
  std::unordered_map<std::string_view, Id> shared_;
};

}  // namespace ipvsproxier::ctl
