#pragma once

// EventFramer: chunks of a response body -> complete JSON documents. Pure; used by one thread.
//
// It only finds where documents end; whether they are JSON is for the decoder. A document that
// lies within one chunk is handed out where it is, others are put together in a buffer that is
// never larger than the bound.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::watch {

class EventFramer {
 public:
  enum class Mode : std::uint8_t {
    watch,  // objects one after another, with or without white space between them
    list,   // one object whose top-level member "items" is handed out element by element
  };
  enum class Piece : std::uint8_t {
    event,     // of a watch
    item,      // of a list, as soon as it is complete
    envelope,  // the list with "items" emptied, at its end; a body without items as it is
  };
  // The document is valid during the call. It must neither feed nor destroy the framer.
  using OnDocument = std::function<void(Piece piece, std::string_view document)>;

  static constexpr std::size_t kMaxDocument = std::size_t{32} << 20U;

  explicit EventFramer(Mode mode, std::size_t max_document = kMaxDocument)
      : mode_(mode), max_document_(max_document) {}

  // An error (malformed: bytes that start no document, or a document, item or envelope above the
  // bound) ends it: further calls answer the same error. What was complete before the error has
  // been handed out.
  netlink::Status feed(std::string_view chunk, const OnDocument& on_document);

  // At the end of the body: an error (malformed) when a document was cut off, in list mode also
  // when there was none.
  netlink::Status finish();

  // Bytes that were taken and not yet handed out.
  std::size_t pending() const;

 private:
  Mode mode_;
  std::size_t max_document_;
};

}  // namespace ipvsproxier::watch
