#pragma once

// What `ipvsctl top` shows: traffic as rows, sorted and filtered, and as lines of a screen; and
// what its keys change. Values; pure, any thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxier/inspect/cluster_names.h"
#include "proxier/inspect/traffic.h"

namespace ipvsproxier::inspect {

enum class TopSort : std::uint8_t { connections, active, inactive, packets, bytes, name };

struct TopView {
  bool by_backend = false;  // else by Service: by virtual service where its Service is not known
  TopSort sort = TopSort::connections;
  bool reversed = false;              // the least first
  std::string filter;                 // what names of rows contain, in any case of letters
  std::optional<std::string> typing;  // the filter that is being typed
  bool paused = false;
  std::chrono::milliseconds interval{2000};
  std::size_t first = 0;  // row on the screen
  bool over = false;

  friend bool operator==(const TopView&, const TopView&) = default;
};

// Keys that are no characters.
enum class TopKey : std::uint8_t { up, down, page_up, page_down, home, enter, escape, backspace };
// `page`: rows on the screen.
void press(TopView& view, char key, std::size_t page);
void press(TopView& view, TopKey key, std::size_t page);

// The entries of one Service or backend together.
struct TopRow {
  std::string name;
  std::uint64_t active = 0;
  std::uint64_t inactive = 0;
  std::optional<Rates> rates;  // of those that have one

  friend bool operator==(const TopRow&, const TopRow&) = default;
};

struct TopTable {
  std::vector<TopRow> rows;
  std::size_t first = 0;     // the first of these among all that match
  std::size_t matching = 0;  // rows that the filter leaves
  std::size_t all = 0;
  TopRow total;  // of all virtual services
};

// At most `most` rows, from view.first on, or from where the last ones are as many.
TopTable top_table(const Traffic& traffic, const TopView& view, const ClusterNames& names,
                   std::size_t most);

// When to read next after a reading that began and ended so: a table that takes long to read is
// read half of the time at most.
TimePoint next_reading(TimePoint began, TimePoint ended, std::chrono::milliseconds interval);

struct ScreenSize {
  std::size_t width = 80;
  std::size_t height = 24;
};
constexpr std::size_t kTopTitleLines = 3;  // above the rows
constexpr std::size_t kTopFootLines = 1;   // below
std::size_t rows_on(const ScreenSize& size);

// Exactly `height` lines of at most `width` characters: two of summary, the titles, rows, keys.
// `reading_took` of the last reading; `notice` stands beside it ("" for none).
std::vector<std::string> top_screen(const TopTable& table, const TopView& view,
                                    const ScreenSize& size, std::chrono::milliseconds reading_took,
                                    const std::string& notice);

// The same without a screen: titles and rows, as wide as the longest name.
std::string top_text(const TopTable& table);

// "0", "3.5", "42", "1234", "12.3k", "4.56M": in at most six characters.
std::string short_number(double number);

}  // namespace ipvsproxier::inspect
