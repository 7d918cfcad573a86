#pragma once

// EventFramer: chunks of a response body -> complete JSON documents. Pure; used by one thread.
//
// It only finds where documents end; whether they are JSON is for the decoder. A document that
// lies within one chunk is handed out where it is, others are put together in a buffer that is
// never larger than the bound. Of an event or item above the bound the beginning is handed out: it
// is somebody's object, and what follows it is not its fault.

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
    event,            // of a watch
    item,             // of a list, as soon as it is complete
    event_beginning,  // of one above the bound, at its end
    item_beginning,
    envelope,  // the list with "items" emptied, at its end; a body without items as it is
  };
  // The document is valid during the call. It must neither feed nor destroy the framer.
  using OnDocument = std::function<void(Piece piece, std::string_view document)>;

  static constexpr std::size_t kMaxDocument = std::size_t{32} << 20U;
  // Of what is above the bound, so much is a beginning; and it ends it when it is so many times the
  // bound, as that is no object any more.
  static constexpr std::size_t kBeginning = std::size_t{64} << 10U;
  static constexpr std::size_t kMostBounds = 32;

  explicit EventFramer(Mode mode, std::size_t max_document = kMaxDocument)
      : mode_(mode), max_document_(max_document) {}

  // An error (malformed: bytes that start no document, or an envelope above the bound) ends it:
  // further calls answer the same error. What was complete before the error has been handed out.
  netlink::Status feed(std::string_view chunk, const OnDocument& on_document);

  // At the end of the body: an error (malformed) when a document was cut off, in list mode also
  // when there was none.
  netlink::Status finish();

  // Bytes that were taken and not yet handed out.
  std::size_t pending() const;

 private:
  enum class State : std::uint8_t {
    between,      // before a document, or before the list
    object,       // in an event or an item
    envelope,     // in the list, outside of its items
    item_or_end,  // behind the [ of the items
    item,         // behind a comma of theirs
    comma_or_end,
    done,  // behind the list
    failed,
  };
  // Where in the brackets and quotes of an object the bytes so far end.
  struct Nesting {
    std::size_t depth = 0;
    bool in_text = false;
    bool escaped = false;  // the next byte of a text stands behind a backslash
  };

  // Each takes bytes off the front.
  void take_start(std::string_view& chunk);
  void take_object(std::string_view& chunk, const OnDocument& on_document);
  void keep_object(std::string_view taken);
  void hand_out_object(std::string_view document, const OnDocument& on_document);
  void take_between_items(std::string_view& chunk);
  void take_envelope(std::string_view& chunk, const OnDocument& on_document);
  void take_envelope_byte(std::string_view& chunk);
  void take_envelope_text(std::string_view& chunk);

  bool skip_blanks(std::string_view& chunk);
  bool exceeds(std::size_t size, std::size_t most);
  void fail(std::string message);
  void fail_at(std::string_view chunk, std::string_view wanted);

  Mode mode_;
  std::size_t max_document_;
  State state_ = State::between;
  std::size_t taken_ = 0;  // bytes of the body before the current chunk
  std::size_t chunk_size_ = 0;
  Nesting object_nesting_;
  Nesting list_nesting_;
  std::string object_;           // the part of the open object that came with earlier chunks
  std::size_t object_size_ = 0;  // of which object_ is the beginning if it is above the bound
  std::string envelope_;
  std::size_t text_start_ = 0;  // in envelope_, behind the quote
  bool at_key_ = false;         // the next text of the envelope is a top-level key
  bool at_items_ = false;       // the top-level key "items" and perhaps its colon have been seen
  std::optional<netlink::Error> error_;
};

}  // namespace ipvsproxier::watch
