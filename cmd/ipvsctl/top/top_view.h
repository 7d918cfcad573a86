#pragma once

// The view of `ipvsctl top`: traffic as sorted and filtered rows, as the lines of a screen, and the
// effects of its keys. Values; pure, any thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/names/cluster_names.h"
#include "cmd/ipvsctl/top/traffic.h"

namespace ipvsproxier::ctl {

enum class TopSort : std::uint8_t { connections, active, inactive, packets, bytes, name };

struct TopView {
  bool by_backend = false;  // else by Service; by virtual service if its Service is unknown
  TopSort sort = TopSort::connections;
  bool reversed = false;              // smallest first
  std::string filter;                 // a part of the rows' names, ignoring case
  std::optional<std::string> typing;  // the filter while it is being typed
  bool paused = false;
  std::chrono::milliseconds interval{2000};
  std::size_t first = 0;  // first row on the screen
  bool over = false;

  friend bool operator==(const TopView&, const TopView&) = default;
};

// Keys without a character.
enum class TopKey : std::uint8_t { up, down, page_up, page_down, home, enter, escape, backspace };
// `page`: number of rows on the screen.
void press(TopView& view, char key, std::size_t page);
void press(TopView& view, TopKey key, std::size_t page);

// The sum over the entries of one Service or backend.
struct TopRow {
  std::string name;
  std::uint64_t active = 0;
  std::uint64_t inactive = 0;
  std::optional<Rates> rates;  // of the entries that have rates

  friend bool operator==(const TopRow&, const TopRow&) = default;
};

struct TopTable {
  std::vector<TopRow> rows;
  std::size_t first = 0;     // position of rows[0] among all matching rows
  std::size_t matching = 0;  // number of rows that match the filter
  std::size_t all = 0;
  TopRow total;  // over all virtual services
};

// At most `most` rows from view.first on; near the end, the last `most` rows.
TopTable top_table(const Traffic& traffic, const TopView& view, const ClusterNames& names,
                   std::size_t most);

// The time of the next reading after one with these times. Reading takes at most half of the time,
// even for a large table.
TimePoint next_reading(TimePoint began, TimePoint ended, std::chrono::milliseconds interval);

struct ScreenSize {
  std::size_t width = 80;
  std::size_t height = 24;
};
constexpr std::size_t kTopTitleLines = 3;  // above the rows
constexpr std::size_t kTopFootLines = 1;   // below
std::size_t rows_on(const ScreenSize& size);

// Exactly `height` lines of at most `width` characters: two lines of summary, the titles, the rows,
// the keys. `reading_took` is the duration of the last reading; `notice` stands beside it ("" for
// none).
std::vector<std::string> top_screen(const TopTable& table, const TopView& view,
                                    const ScreenSize& size, std::chrono::milliseconds reading_took,
                                    const std::string& notice);

// The same without a screen: titles and rows, in the width of the longest name.
std::string top_text(const TopTable& table);

// "0", "3.5", "42", "1234", "12.3k", "4.56M": at most six characters.
std::string short_number(double number);

}  // namespace ipvsproxier::ctl
