#include "proxier/watch/event_framer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::watch {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";
// A larger buffer, caused by one large object, is released.
constexpr std::size_t kKeptCapacity = std::size_t{1} << 20U;

bool opens(char byte) {
  return byte == '{' || byte == '[';
}

bool closes(char byte) {
  return byte == '}' || byte == ']';
}

// Whether the byte after `text` is escaped, if the first byte of `text` is not.
bool ends_in_escape(std::string_view text) {
  const auto last_other = text.find_last_not_of('\\');
  const std::size_t backslashes =
      last_other == std::string_view::npos ? text.size() : text.size() - last_other - 1;
  return backslashes % 2 == 1;
}

// The offset after the quote that ends the text at the beginning of `bytes`; npos: it does not end
// in them. Most texts are short, yet memchr is three times as fast as a loop over the bytes.
std::size_t end_of_text(std::string_view bytes, bool& escaped) {
  std::size_t at = escaped && !bytes.empty() ? 1 : 0;
  if (!bytes.empty()) escaped = false;
  while (at < bytes.size()) {
    const auto* quote =
        static_cast<const char*>(std::memchr(bytes.data() + at, '"', bytes.size() - at));
    const std::size_t end =
        quote == nullptr ? bytes.size() : static_cast<std::size_t>(quote - bytes.data());
    const bool behind_escape = ends_in_escape(bytes.substr(at, end - at));
    if (quote == nullptr) {
      escaped = behind_escape;
      break;
    }
    if (!behind_escape) return end + 1;
    at = end + 1;
  }
  return std::string_view::npos;
}

void give_back(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptCapacity) buffer.shrink_to_fit();
}

}  // namespace

netlink::Status EventFramer::feed(std::string_view chunk, const OnDocument& on_document) {
  chunk_size_ = chunk.size();
  while (!chunk.empty() && state_ != State::failed) {
    switch (state_) {
      case State::between:
      case State::done:
        take_start(chunk);
        break;
      case State::object:
        take_object(chunk, on_document);
        break;
      case State::envelope:
        take_envelope(chunk, on_document);
        break;
      case State::item_or_end:
      case State::item:
      case State::comma_or_end:
        take_between_items(chunk);
        break;
      case State::failed:
        break;
    }
  }
  if (error_) return *error_;
  taken_ += chunk_size_;
  return {};
}

netlink::Status EventFramer::finish() {
  const bool whole = state_ == State::done || (mode_ == Mode::watch && state_ == State::between);
  if (!whole && state_ != State::failed)
    fail(state_ == State::between
             ? "the answer is empty"
             : fmt::format("the answer ends inside a document, after {} bytes", taken_));
  if (error_) return *error_;
  return {};
}

std::size_t EventFramer::pending() const {
  return object_.size() + envelope_.text.size();
}

void EventFramer::take_start(std::string_view& chunk) {
  if (!skip_blanks(chunk)) return;
  if (state_ == State::done) return fail_at(chunk, "nothing");
  if (chunk[0] != '{') return fail_at(chunk, "'{'");
  state_ = mode_ == Mode::watch ? State::object : State::envelope;
}

void EventFramer::take_object(std::string_view& chunk, const OnDocument& on_document) {
  std::size_t at = 0;
  bool complete = false;
  while (at < chunk.size() && !complete) {
    if (object_nesting_.in_text) {
      const auto end = end_of_text(chunk.substr(at), object_nesting_.escaped);
      object_nesting_.in_text = end == std::string_view::npos;
      at = object_nesting_.in_text ? chunk.size() : at + end;
      continue;
    }
    const char byte = chunk[at++];
    object_nesting_.in_text = byte == '"';
    if (opens(byte)) ++object_nesting_.depth;
    if (closes(byte)) complete = --object_nesting_.depth == 0;
  }
  if (exceeds(object_size_ + at, kMostBounds * max_document_)) return;
  const auto taken = chunk.substr(0, at);
  chunk.remove_prefix(at);
  const bool is_torn = !complete || object_size_ > 0;
  object_size_ += at;
  if (is_torn || object_size_ > max_document_) keep_object(taken);
  if (complete) hand_out_object(is_torn ? std::string_view(object_) : taken, on_document);
}

// Above the limit only the beginning is kept.
void EventFramer::keep_object(std::string_view taken) {
  if (object_size_ <= max_document_) {
    object_.append(taken);
    return;
  }
  const auto most = std::min(kBeginning, max_document_);
  if (object_.size() > most) {
    object_.resize(most);
    object_.shrink_to_fit();
  }
  object_.append(taken.substr(0, most - object_.size()));
}

void EventFramer::hand_out_object(std::string_view document, const OnDocument& on_document) {
  const bool is_watch = mode_ == Mode::watch;
  state_ = is_watch ? State::between : State::comma_or_end;
  if (std::exchange(object_size_, 0) > max_document_)
    on_document(is_watch ? Piece::event_beginning : Piece::item_beginning, object_);
  else
    on_document(is_watch ? Piece::event : Piece::item, document);
  give_back(object_);
}

void EventFramer::take_between_items(std::string_view& chunk) {
  if (!skip_blanks(chunk)) return;
  const char byte = chunk[0];
  if (byte == '{' && state_ != State::comma_or_end) {
    state_ = State::object;
    return;
  }
  if (byte == ',' && state_ == State::comma_or_end) {
    state_ = State::item;
  } else if (byte == ']' && state_ != State::item) {
    envelope_.text += byte;
    --list_nesting_.depth;
    state_ = State::envelope;
  } else {
    return fail_at(chunk, state_ == State::comma_or_end ? "',' or ']'" : "an object");
  }
  chunk.remove_prefix(1);
}

void EventFramer::take_envelope(std::string_view& chunk, const OnDocument& on_document) {
  while (!chunk.empty() && state_ == State::envelope) {
    if (list_nesting_.in_text) {
      take_envelope_text(chunk);
    } else {
      take_envelope_byte(chunk);
    }
  }
  if (state_ != State::done) return;
  on_document(Piece::envelope, envelope_.text);
  give_back(envelope_.text);
}

void EventFramer::take_envelope_text(std::string_view& chunk) {
  const auto end = end_of_text(chunk, list_nesting_.escaped);
  const auto taken = chunk.substr(0, end);
  if (exceeds(envelope_.text.size() + taken.size(), max_document_)) return;
  envelope_.text.append(taken);
  chunk.remove_prefix(taken.size());
  if (end == std::string_view::npos) return;
  list_nesting_.in_text = false;
  envelope_.at_items =
      envelope_.at_key && std::string_view(envelope_.text).substr(envelope_.quoted) == "items\"";
  envelope_.at_key = false;
}

void EventFramer::take_envelope_byte(std::string_view& chunk) {
  if (exceeds(envelope_.text.size() + 1, max_document_)) return;
  const char byte = chunk[0];
  chunk.remove_prefix(1);
  envelope_.text += byte;
  if (kBlanks.find(byte) != std::string_view::npos) return;
  if (byte == '"') {
    list_nesting_.in_text = true;
    envelope_.quoted = envelope_.text.size();
    return;
  }
  if (opens(byte)) ++list_nesting_.depth;
  if (closes(byte) && --list_nesting_.depth == 0) state_ = State::done;
  if (envelope_.at_items && byte == '[') state_ = State::item_or_end;
  envelope_.at_items = envelope_.at_items && byte == ':';
  envelope_.at_key = list_nesting_.depth == 1 && (byte == '{' || byte == ',');
}

bool EventFramer::skip_blanks(std::string_view& chunk) {
  const auto first = std::min(chunk.find_first_not_of(kBlanks), chunk.size());
  chunk.remove_prefix(first);
  return !chunk.empty();
}

bool EventFramer::exceeds(std::size_t size, std::size_t most) {
  if (size <= most) return false;
  fail(fmt::format("a document of the answer is larger than {} bytes", most));
  return true;
}

void EventFramer::fail_at(std::string_view chunk, std::string_view wanted) {
  const auto byte = static_cast<unsigned char>(chunk[0]);
  const auto shown = byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", chunk[0])
                                                : fmt::format("byte {:#04x}", unsigned{byte});
  fail(fmt::format("the answer is no JSON of the API: {} at offset {} where {} is expected", shown,
                   taken_ + chunk_size_ - chunk.size(), wanted));
}

void EventFramer::fail(std::string message) {
  state_ = State::failed;
  object_ = {};
  envelope_ = {};
  error_ = netlink::Error{.kind = netlink::ErrorKind::malformed, .where = std::move(message)};
}

}  // namespace ipvsproxier::watch
