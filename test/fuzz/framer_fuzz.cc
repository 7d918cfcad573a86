// Whatever bytes come and however they are torn, the framer hands out the same documents and the
// same error, never a document above its bound, and holds no more than that.
//
// The first byte of an input is the mode and the bound, the second the seed of the chunk sizes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxier/watch/event_framer.h"

namespace ipvsproxier::watch {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

struct Setting {
  EventFramer::Mode mode = EventFramer::Mode::watch;
  std::size_t max_document = 0;
};

// All that comes out: each document behind its piece and length, then the error.
template <typename NextSize>
std::string frame(const Setting& setting, std::string_view body, NextSize next_size) {
  std::string out;
  EventFramer framer(setting.mode, setting.max_document);
  const auto take = [&](EventFramer::Piece piece, std::string_view document) {
    require(!document.empty() && document.size() <= setting.max_document);
    using Piece = EventFramer::Piece;
    const bool is_cut = piece == Piece::event_beginning || piece == Piece::item_beginning;
    require(document.front() == '{');
    require(is_cut || document.back() == '}' || document.back() == ']');
    const bool is_event = piece == Piece::event || piece == Piece::event_beginning;
    require(is_event == (setting.mode == EventFramer::Mode::watch));
    out += static_cast<char>('0' + static_cast<int>(piece));
    out += std::to_string(document.size()) + ':';
    out += document;
  };
  while (!body.empty()) {
    // A copy of its own, so that a read beyond the chunk is one beyond an allocation.
    const std::string chunk(body.substr(0, next_size()));
    body.remove_prefix(chunk.size());
    const auto status = framer.feed(chunk, take);
    require(framer.pending() <= 2 * setting.max_document);  // an item and the envelope
    if (status) continue;
    require(framer.pending() == 0 && !framer.finish());
    return out + "error: " + status.error().where;
  }
  const auto status = framer.finish();
  return status ? out : out + "error: " + status.error().where;
}

}  // namespace
}  // namespace ipvsproxier::watch

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier::watch;
  if (size < 2) return 0;
  const Setting setting{
      .mode = data[0] % 2 == 0 ? EventFramer::Mode::watch : EventFramer::Mode::list,
      .max_document = data[0] / 2 == 0 ? EventFramer::kMaxDocument : data[0] / 2U};
  std::uint32_t random = data[1];
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto whole = frame(setting, body, [&] { return body.size(); });
  require(frame(setting, body, [] { return std::size_t{1}; }) == whole);
  require(frame(setting, body, [&random] {
            random = random * 1664525U + 1013904223U;
            return std::size_t{1} + (random >> 24U) % 32U;
          }) == whole);
  return 0;
}
