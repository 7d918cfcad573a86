#pragma once

// Where tests find their files and programs. Compiled into paths.cc alone, so that the compiler's
// cache (ccache) knows every other source again in another checkout.

#include <string>
#include <string_view>

namespace ipvsproxier::test {

// A file or folder below test/.
std::string data_path(std::string_view below);

// The same as a word for a shell, whatever signs the path has.
std::string data_word(std::string_view below);

// The programs of this build, as words for a shell and as a path.
std::string ipvs_proxier_word();
std::string ipvs_proxier_path();
std::string ipvsctl_word();

}  // namespace ipvsproxier::test
