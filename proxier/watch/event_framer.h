#pragma once

// EventFramer: splits the chunks of a response body into complete JSON documents. Pure; one thread.
//
// It only finds the ends of documents; the decoder checks whether they are JSON. A document within
// one chunk is passed on in place; others are assembled in a buffer that never exceeds the limit.
// For an event or item above the limit only its beginning is passed on, so that one large object
// does not stop the rest.

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
    list,   // one object; the elements of its top-level member "items" are passed on one by one
  };
  enum class Piece : std::uint8_t {
    event,            // of a watch
    item,             // of a list, once complete
    event_beginning,  // of an event above the limit, at its end
    item_beginning,
    envelope,  // the list with "items" emptied, at its end; a body without items unchanged
  };
  // `document` is valid during the call. The callback must neither feed nor destroy the framer.
  using OnDocument = std::function<void(Piece piece, std::string_view document)>;

  static constexpr std::size_t kMaxDocument = std::size_t{32} << 20U;
  // Of a document above the limit, this many bytes are its beginning; a document of this many times
  // the limit ends the stream, because it is no object.
  static constexpr std::size_t kBeginning = std::size_t{64} << 10U;
  static constexpr std::size_t kMostBounds = 32;

  explicit EventFramer(Mode mode, std::size_t max_document = kMaxDocument)
      : mode_(mode), max_document_(max_document) {}

  // An error ends the stream (malformed: bytes that cannot start a document, or an envelope above
  // the limit); further calls return the same error. Documents before the error have been passed
  // on.
  netlink::Status feed(std::string_view chunk, const OnDocument& on_document);

  // Call at the end of the body. An error (malformed) if a document was cut off, in list mode also
  // if there was no document.
  netlink::Status finish();

  // Number of bytes that were received and not yet passed on.
  std::size_t pending() const;

 private:
  enum class State : std::uint8_t {
    between,      // before a document, or before the list
    object,       // in an event or an item
    envelope,     // in the list, outside its items
    item_or_end,  // after the [ of the items
    item,         // after a comma between items
    comma_or_end,
    done,  // after the list
    failed,
  };
  // Position in the brackets and quotes of an object at the end of the bytes so far.
  struct Nesting {
    std::size_t depth = 0;
    bool in_text = false;
    bool escaped = false;  // the previous byte of the text was a backslash
  };

  // Each removes bytes from the front.
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
  std::string object_;           // part of the current object from earlier chunks
  std::size_t object_size_ = 0;  // object_ is only its beginning above the limit
  struct Envelope {
    std::string text;
    std::size_t quoted = 0;  // where the current text in quotes begins, after the quote
    bool at_key = false;     // the next text in quotes is a top-level key
    bool at_items = false;   // the top-level key "items", and maybe its colon, were seen
  } envelope_;
  std::optional<netlink::Error> error_;
};

}  // namespace ipvsproxier::watch
