#include "cmd/ipvsctl/top/top_view.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

constexpr std::chrono::milliseconds kShortestInterval{250};
constexpr std::chrono::milliseconds kLongestInterval{64000};

struct ShownBackend {
  const netlink::VirtualServiceKey* service = nullptr;  // a virtual service that has it
  netlink::RealServerKey server;
  std::uint32_t weight = 1;  // in the first virtual service where it is not 1
  bool full = false;         // in any of them: it has as many connections as it may have
};

// A row of a table that may be long: names are made only for rows that are used.
struct Sum {
  std::string name;
  std::optional<ShownBackend> backend;  // source of the name until `name` is set
  std::uint64_t active = 0;
  std::uint64_t inactive = 0;
  std::optional<Rates> rates;

  void add(const std::optional<Rates>& more) {
    if (!more) return;
    if (!rates) rates.emplace();
    *rates += *more;
  }
};

netlink::RealServerKey server_of(const Sum& sum) {
  return sum.backend ? sum.backend->server : netlink::RealServerKey{};
}

double sort_number(const Sum& sum, TopSort sort) {
  const auto rates = sum.rates.value_or(Rates{});
  switch (sort) {
    case TopSort::active:
      return static_cast<double>(sum.active);
    case TopSort::inactive:
      return static_cast<double>(sum.inactive);
    case TopSort::packets:
      return rates.packets_in + rates.packets_out;
    case TopSort::bytes:
      return rates.bytes_in + rates.bytes_out;
    case TopSort::connections:
      return rates.connections;
    case TopSort::name:
      break;
  }
  return 0;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool contains(const std::string& text, const std::string& part) {
  const auto same = [](char left, char right) { return lower(left) == lower(right); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// "shop/web:http", if known.
std::string name_of(const netlink::VirtualServiceKey& key, const ClusterNames& names) {
  const auto name = names.of(key);
  return name ? api::visible(to_string(*name)) : netlink::to_string(key);
}

// "10.244.0.9:8080 shop/web-1"
std::string name_of(const ShownBackend& backend, const ClusterNames& names) {
  auto text = netlink::to_string(backend.server);
  const auto service = names.of(*backend.service);
  const auto server = names.of(*backend.service, backend.server);
  if (service && server && !server->pod.empty())
    text += api::visible(fmt::format(" {}/{}", service->ns, server->pod));
  if (backend.weight != 1) text += fmt::format(", weight {}", backend.weight);
  if (backend.full) text += ", full";
  return text;
}

struct HashServer {
  std::size_t operator()(const netlink::RealServerKey& key) const {
    std::size_t hash = key.port;
    for (const auto byte : key.address.bytes()) hash = hash * 31 + byte;
    return hash;
  }
};

// ip_vs_dest_totalconns() and what the schedulers make of it (ip_vs_conn.c, 6.1).
bool is_full(const Traffic::Server& server) {
  return server.upper_threshold != 0 &&
         std::uint64_t{server.active} + server.inactive >= server.upper_threshold;
}

std::vector<Sum> sums_by_service(const Traffic& traffic, const ClusterNames& names) {
  std::vector<Sum> sums;
  std::unordered_map<std::string, std::size_t> places;
  for (const auto& [key, service] : traffic.services()) {
    auto name = name_of(key, names);
    const auto [place, added] = places.try_emplace(name, sums.size());
    if (added) sums.push_back({.name = std::move(name)});
    auto& sum = sums[place->second];
    sum.add(service.meter.rates());
    for (const auto& server : service.servers) {
      sum.active += server.active;
      sum.inactive += server.inactive;
    }
  }
  return sums;
}

std::vector<Sum> sums_by_backend(const Traffic& traffic) {
  std::vector<Sum> sums;
  std::unordered_map<netlink::RealServerKey, std::size_t, HashServer> places;
  for (const auto& [key, service] : traffic.services())
    for (const auto& server : service.servers) {
      const auto [place, added] = places.try_emplace(server.key, sums.size());
      if (added) sums.push_back({.backend = ShownBackend{.service = &key, .server = server.key}});
      auto& sum = sums[place->second];
      if (sum.backend->weight == 1) sum.backend->weight = server.weight;
      sum.backend->full = sum.backend->full || is_full(server);
      sum.add(server.meter.rates());
      sum.active += server.active;
      sum.inactive += server.inactive;
    }
  return sums;
}

void make_names(std::vector<Sum>& sums, const ClusterNames& names) {
  for (auto& sum : sums)
    if (sum.backend && sum.name.empty()) sum.name = name_of(*sum.backend, names);
}

TopRow row_of(const Sum& sum, const ClusterNames& names) {
  return {.name = sum.backend ? name_of(*sum.backend, names) : sum.name,
          .active = sum.active,
          .inactive = sum.inactive,
          .rates = sum.rates};
}

// Largest first, names ascending; equal rows by name or address.
auto top_order(const TopView& view) {
  return [&view](const Sum& left, const Sum& right) {
    const auto a = sort_number(left, view.sort);
    const auto b = sort_number(right, view.sort);
    if (a != b) return view.reversed ? a < b : a > b;
    auto by_name = left.name <=> right.name;
    if (by_name == 0) by_name = server_of(left) <=> server_of(right);
    return view.reversed && view.sort == TopSort::name ? by_name > 0 : by_name < 0;
  };
}

// Width in characters, as fmt counts them.
std::string cut(const std::string& text, std::size_t width) {
  auto fits = fmt::format("{:.{}}", text, width);
  if (fits.size() == text.size() || width == 0) return fits;
  return fmt::format("{:.{}}~", text, width - 1);
}

constexpr std::string_view kNumberTitles = "  Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS";

std::string numbers_of(const TopRow& row) {
  std::string text = fmt::format(" {:>7} {:>6}", short_number(static_cast<double>(row.active)),
                                 short_number(static_cast<double>(row.inactive)));
  const auto append = [&](double Rates::*rate) {
    text += fmt::format(" {:>6}", row.rates ? short_number((*row.rates).*rate) : "-");
  };
  for (const auto rate : {&Rates::connections, &Rates::packets_in, &Rates::packets_out,
                          &Rates::bytes_in, &Rates::bytes_out})
    append(rate);
  return text;
}

std::string_view sort_word(TopSort sort) {
  switch (sort) {
    case TopSort::connections:
      return "new connections";
    case TopSort::active:
      return "active connections";
    case TopSort::inactive:
      return "inactive connections";
    case TopSort::packets:
      return "packets";
    case TopSort::bytes:
      return "bytes";
    case TopSort::name:
      return "name";
  }
  return "";
}

void scroll(TopView& view, std::ptrdiff_t rows) {
  const auto to = static_cast<std::ptrdiff_t>(view.first) + rows;
  view.first = static_cast<std::size_t>(std::max<std::ptrdiff_t>(to, 0));
}

std::string first_line(const TopTable& table, const TopView& view,
                       std::chrono::milliseconds reading_took, const std::string& notice) {
  const auto rows = table.matching == table.all
                        ? fmt::format("{}", table.all)
                        : fmt::format("{} of {}", table.matching, table.all);
  auto text =
      fmt::format("{} {} by {}{}, every {} s", rows, view.by_backend ? "backends" : "Services",
                  sort_word(view.sort), view.reversed ? ", least first" : "",
                  static_cast<double>(view.interval.count()) / 1000);
  if (!view.filter.empty()) text += fmt::format(", with \"{}\"", view.filter);
  text += fmt::format(", read in {} ms", reading_took.count());
  if (view.paused) text += " [paused]";
  if (!notice.empty()) text += ": " + notice;
  return text;
}

std::string last_line(const TopView& view) {
  if (view.typing) return "/" + *view.typing;
  return "q quit  t Services/backends  c a i p b n sort  r reverse  / filter  space pause  + - "
         "interval";
}

}  // namespace

void press(TopView& view, char key, std::size_t page) {
  if (view.typing) {
    constexpr std::size_t kLongestFilter = 200;
    if (key >= ' ' && key <= '~' && view.typing->size() < kLongestFilter) *view.typing += key;
    return;
  }
  constexpr std::array<std::pair<char, TopSort>, 6> kSorts = {{{'c', TopSort::connections},
                                                               {'a', TopSort::active},
                                                               {'i', TopSort::inactive},
                                                               {'p', TopSort::packets},
                                                               {'b', TopSort::bytes},
                                                               {'n', TopSort::name}}};
  for (const auto& [letter, sort] : kSorts)
    if (letter == key) view.sort = sort;
  switch (key) {
    case 'q':
      view.over = true;
      break;
    case 't':
      view.by_backend = !view.by_backend;
      view.first = 0;
      break;
    case 'r':
      view.reversed = !view.reversed;
      break;
    case ' ':
      view.paused = !view.paused;
      break;
    case '/':
      view.typing.emplace();
      break;
    case '+':
      view.interval = std::min(view.interval * 2, kLongestInterval);
      break;
    case '-':
      view.interval = std::max(view.interval / 2, kShortestInterval);
      break;
    case 'j':
      return press(view, TopKey::down, page);
    case 'k':
      return press(view, TopKey::up, page);
    default:
      break;
  }
}

void press(TopView& view, TopKey key, std::size_t page) {
  switch (key) {
    case TopKey::up:
      return scroll(view, -1);
    case TopKey::down:
      return scroll(view, 1);
    case TopKey::page_up:
      return scroll(view, -static_cast<std::ptrdiff_t>(page));
    case TopKey::page_down:
      return scroll(view, static_cast<std::ptrdiff_t>(page));
    case TopKey::home:
      view.first = 0;
      return;
    case TopKey::enter:
      if (!view.typing) return;
      view.filter = *view.typing;
      view.typing.reset();
      view.first = 0;
      return;
    case TopKey::escape:
      view.typing.reset();
      return;
    case TopKey::backspace:
      if (view.typing && !view.typing->empty()) view.typing->pop_back();
      return;
  }
}

TopTable top_table(const Traffic& traffic, const TopView& view, const ClusterNames& names,
                   std::size_t most) {
  auto sums = view.by_backend ? sums_by_backend(traffic) : sums_by_service(traffic, names);
  TopTable table{.all = sums.size()};
  Sum total;
  for (const auto& [key, service] : traffic.services()) total.add(service.meter.rates());
  for (const auto& sum : sums) {
    total.active += sum.active;
    total.inactive += sum.inactive;
  }
  table.total = row_of(total, names);
  if (!view.filter.empty() || view.sort == TopSort::name) make_names(sums, names);
  if (!view.filter.empty())
    std::erase_if(sums, [&](const Sum& sum) { return !contains(sum.name, view.filter); });
  table.matching = sums.size();
  const auto begin = std::min(view.first, sums.size() - std::min(most, sums.size()));
  const auto end = begin + std::min(most, sums.size() - begin);
  table.first = begin;
  const auto at = [&](std::size_t index) {
    return sums.begin() + static_cast<std::ptrdiff_t>(index);
  };
  std::partial_sort(at(0), at(end), sums.end(), top_order(view));
  for (auto sum = at(begin); sum != at(end); ++sum) table.rows.push_back(row_of(*sum, names));
  return table;
}

TimePoint next_reading(TimePoint began, TimePoint ended, std::chrono::milliseconds interval) {
  return std::max(began + interval, ended + (ended - began));
}

std::size_t rows_on(const ScreenSize& size) {
  constexpr auto kOther = kTopTitleLines + kTopFootLines;
  return size.height > kOther ? size.height - kOther : 0;
}

std::vector<std::string> top_screen(const TopTable& table, const TopView& view,
                                    const ScreenSize& size, std::chrono::milliseconds reading_took,
                                    const std::string& notice) {
  constexpr std::size_t kLeastName = 12;
  const auto numbers = kNumberTitles.size();
  const auto name_width = std::max(size.width, numbers + kLeastName) - numbers;
  const auto line = [&](const std::string& name, std::string_view rest) {
    return fmt::format("{:{}}{}", cut(name, name_width), name_width, rest);
  };
  std::vector<std::string> lines;
  lines.push_back(first_line(table, view, reading_took, notice));
  lines.push_back(line(view.by_backend ? "Backend" : "Service", kNumberTitles));
  lines.push_back(line("all", numbers_of(table.total)));
  for (const auto& row : table.rows) lines.push_back(line(row.name, numbers_of(row)));
  lines.resize(size.height > 0 ? size.height - 1 : 0);
  if (size.height > 0) lines.push_back(last_line(view));
  for (auto& one : lines) one = cut(one, size.width);
  return lines;
}

std::string top_text(const TopTable& table) {
  std::size_t width = 7;
  for (const auto& row : table.rows) width = std::max(width, row.name.size());
  auto text = fmt::format("{:{}}{}\n", "Name", width, kNumberTitles);
  const auto append = [&](const TopRow& row) {
    fmt::format_to(std::back_inserter(text), "{:{}}{}\n", row.name, width, numbers_of(row));
  };
  for (const auto& row : table.rows) append(row);
  auto total = table.total;
  total.name = "all";
  append(total);
  return text;
}

std::string short_number(double number) {
  constexpr double kWhole = 99999.5;
  constexpr double kTenth = 9.95;
  if (number < kTenth) {
    auto text = fmt::format("{:.1f}", number);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  }
  if (number < kWhole) return fmt::format("{:.0f}", number);
  std::size_t unit = 0;
  constexpr std::string_view kUnits = "kMGTPE";
  for (number /= 1000; number >= 999.5 && unit + 1 < kUnits.size(); ++unit) number /= 1000;
  const int decimals = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", number, decimals, kUnits[unit]);
}

}  // namespace ipvsproxier::ctl
