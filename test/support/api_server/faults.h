#pragma once

// How the test API server misbehaves towards the requests of one resource. Takes effect at once, on
// running watches too; `answers` only on requests that come later.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ipvsproxier::test {

enum class Asked : std::uint8_t { anything, lists, watches };

// Given instead of a list or watch.
struct FaultAnswer {
  int code = 500;
  std::string reason;  // of the Status; empty: as the code has it
  std::string message = "told to fail";
  std::optional<int> retry_after_seconds;
  std::size_t times = SIZE_MAX;  // then as usual
  Asked asked = Asked::anything;
  bool plain_text = false;  // not a Status but what a proxy in between might say
};

struct Faults {
  // Of the bytes of bodies.
  std::size_t tear = 0;  // HTTP chunks of 1 to so many bytes, each its own TCP segment; 0: off
  double bytes_per_second = 0;  // trickles single bytes; 0: off
  // Nothing more is sent, the connection stays open. With `silent_answer` a request gets not even a
  // status; without, its head comes and its body does not.
  bool silent = false;
  bool silent_answer = false;
  std::optional<std::size_t>
      cut_after;  // the connection is closed after so many bytes of each body

  // Of answers: the first that fits and is not used up.
  std::vector<FaultAnswer> answers;

  // Of what lists and watches say.
  bool malformed = false;       // each event and each list has a place where it is no JSON
  bool duplicate = false;       // each event comes twice
  bool reorder = false;         // events that are there at once come last first
  bool bookmarks_only = false;  // events are held back; bookmarks tell the version before them
};

}  // namespace ipvsproxier::test
