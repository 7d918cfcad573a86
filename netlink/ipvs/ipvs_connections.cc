#include "netlink/ipvs/ipvs_connections.h"

#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "netlink/text.h"

namespace ipvsproxier::netlink {

namespace {

std::string_view take_word(std::string_view& text) {
  constexpr std::string_view kBlanks = " \t";
  const auto start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos) {
    text = {};
    return {};
  }
  text.remove_prefix(start);
  const auto word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

std::optional<IpAddress> parse_listed_address(std::string_view text) {
  constexpr int kHexadecimal = 16;
  if (text.find(':') != std::string_view::npos) {
    const auto address = IpAddress::parse(text);
    return address;
  }
  const auto number = parse_number<std::uint32_t>(text, kHexadecimal);
  if (!number) return std::nullopt;
  return IpAddress::v4(*number);
}

}  // namespace

Result<IpvsConnection> parse_connection(std::string_view line) {
  constexpr int kHexadecimal = 16;
  constexpr int kDecimal = 10;
  auto rest = line;
  IpvsConnection connection{.protocol = std::string(take_word(rest))};
  const auto take_end = [&](IpAddress& address, std::uint16_t& port) {
    const auto read_address = parse_listed_address(take_word(rest));
    const auto read_port = parse_number<std::uint16_t>(take_word(rest), kHexadecimal);
    if (!read_address || !read_port) return false;
    address = *read_address;
    port = *read_port;
    return true;
  };
  const bool ends = take_end(connection.client_address, connection.client_port) &&
                    take_end(connection.virtual_address, connection.virtual_port) &&
                    take_end(connection.server_address, connection.server_port);
  connection.state = take_word(rest);
  const auto expires = parse_number<std::uint32_t>(take_word(rest), kDecimal);
  if (!ends || connection.state.empty() || !expires)
    return malformed(fmt::format("no connection: \"{}\"", line));
  connection.expires = *expires;
  connection.persistence_engine = take_word(rest);
  connection.persistence_data = take_word(rest);
  return connection;
}

Status ConnectionFile::connections(const std::function<Status(const IpvsConnection&)>& each) {
  std::ifstream file(path_);
  if (!file) {
    const int error = errno;
    return make_error(Operation::generic, error,
                      error == ENOENT
                          ? fmt::format("{}: load module ip_vs (modprobe ip_vs) on the host", path_)
                          : path_);
  }
  std::string line;
  std::getline(file, line);  // the title line
  while (std::getline(file, line)) {
    const auto connection = parse_connection(line);
    if (!connection) return connection.error();
    if (auto status = each(*connection); !status) return status;
  }
  if (file.bad()) return make_error(Operation::generic, EIO, path_);
  return {};
}

}  // namespace ipvsproxier::netlink
