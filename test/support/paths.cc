#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

std::string word_of(const std::string& path) {
  std::string word = "'";
  for (const auto letter : path) word += letter == '\'' ? "'\\''" : std::string(1, letter);
  return word + "'";
}

}  // namespace

std::string data_path(std::string_view below) {
  return std::string(TEST_DATA "/").append(below);
}

std::string data_word(std::string_view below) {
  return word_of(data_path(below));
}

std::string ipvs_proxier_word() {
  return word_of(IPVS_PROXIER);
}
std::string ipvs_proxier_path() {
  return IPVS_PROXIER;
}
std::string ipvsctl_word() {
  return word_of(IPVSCTL);
}

}  // namespace ipvsproxier::test
