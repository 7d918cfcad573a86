#include "test/support/paths.h"

namespace ipvsproxier::test {

std::string data_path(std::string_view below) {
  return std::string(TEST_DATA "/").append(below);
}

std::string ipvs_proxier_path() {
  return IPVS_PROXIER;
}
std::string ipvsctl_path() {
  return IPVSCTL;
}

}  // namespace ipvsproxier::test
