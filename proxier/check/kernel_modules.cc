#include "proxier/check/kernel_modules.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "netlink/kernel_module.h"
#include "netlink/text.h"
#include "proxier/check/kernel_config.h"

namespace ipvsproxier::check {

namespace {

constexpr std::size_t kMostFolderEntries = 4096;

std::string with_underscores(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '-', '_');
  return result;
}

// "kernel/net/netfilter/ipvs/ip_vs.ko.xz" -> "ip_vs"
std::string name_of_file(std::string_view path) {
  const auto file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return with_underscores(file.substr(0, file.find(".ko")));
}

void read_dependencies(std::string_view text, ModuleIndex& index) {
  for (const auto line : lines_of(text)) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    auto& files = index.files[name_of_file(netlink::trimmed(line.substr(0, colon)))];
    files.assign({std::string(netlink::trimmed(line.substr(0, colon)))});
    for (const auto word : words_of(line.substr(colon + 1))) files.emplace_back(word);
  }
}

void read_modprobe_file(const std::filesystem::path& path, ModuleIndex& index) {
  const auto text = read_some(path);
  if (!text) return;
  for (const auto line : lines_of(*text)) {
    const auto words = words_of(line);
    if (words.size() > 2 && words[0] == "install")
      index.install_lines.try_emplace(with_underscores(words[1]), path.string());
    if (words.size() > 1 && words[0] == "blacklist")
      index.blacklists.try_emplace(with_underscores(words[1]), path.string());
  }
}

void read_modprobe_folder(const std::filesystem::path& folder, ModuleIndex& index) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (std::size_t i = 0; !error && it != std::filesystem::end(it) && i < kMostFolderEntries; ++i) {
    if (it->path().extension() == ".conf") read_modprobe_file(it->path(), index);
    it.increment(error);
  }
}

void read_loaded(const HostPaths& paths, ModuleIndex& index) {
  if (const auto text = read_some(paths.proc / "modules"))
    for (const auto line : lines_of(*text))
      if (const auto words = words_of(line); !words.empty()) index.loaded.emplace(words.front());
  std::error_code error;
  std::filesystem::directory_iterator it(paths.sys / "module", error);
  for (std::size_t i = 0; !error && it != std::filesystem::end(it) && i < kMostFolderEntries; ++i) {
    index.loaded.insert(with_underscores(it->path().filename().string()));
    it.increment(error);
  }
}

ModuleFact missing(std::string why) {
  return {.state = ModuleState::missing, .why = std::move(why)};
}

ModuleFact refused(std::string why) {
  return {.state = ModuleState::refused, .why = std::move(why)};
}

bool is_present(const std::string& name, const ModuleIndex& index) {
  return index.loaded.contains(name) || index.built_in.contains(name);
}

// The first file, of the module or of what it depends on and what is not loaded, that is not there.
std::optional<std::string> absent_file(const std::vector<std::string>& files,
                                       const ModuleIndex& index) {
  for (const auto& file : files) {
    std::error_code ignored;
    const auto path = index.folder / file;  // an absolute path stays as it is
    if (!is_present(name_of_file(file), index) && !std::filesystem::exists(path, ignored))
      return path.string();
  }
  return std::nullopt;
}

// Whether something forbids to load what has its files; nullopt if not.
std::optional<ModuleFact> refusal_of(const ModuleQuestion& question,
                                     const std::vector<std::string>& files,
                                     const ModuleIndex& index, const LoadingRules& rules) {
  if (rules.forbidden) return refused("no module may be loaded any more (kernel/modules_disabled)");
  for (const auto& file : files) {
    const auto name = name_of_file(file);
    if (is_present(name, index)) continue;
    if (const auto line = index.install_lines.find(name); line != index.install_lines.end())
      return refused(fmt::format("{} replaces the loading of {} by a command", line->second, name));
  }
  if (rules.by_us) return std::nullopt;
  if (!question.asked_for_by_kernel)
    return refused(
        "this process cannot load modules (CAP_SYS_MODULE, and modprobe), and the kernel does not "
        "ask for this one by itself");
  if (!rules.by_kernel)
    return refused("the kernel may not load modules by itself (kernel/modprobe is empty)");
  if (const auto line = index.blacklists.find(question.name); line != index.blacklists.end())
    return refused(fmt::format("{} forbids the kernel to load it by itself", line->second));
  return std::nullopt;
}

// What the kernel's configuration alone says; nullopt: nothing that decides.
std::optional<ModuleFact> by_config(const std::string& name, const KernelConfig& config) {
  const auto option = option_of(name);
  if (!config.known() || option.empty()) return std::nullopt;
  // Since 6.10 CONFIG_IP_NF_IPTABLES alone does not build ip_tables (net/ipv4/netfilter/Kconfig).
  const auto legacy = config.value(option + "_LEGACY");
  const bool is_unsure = option.ends_with("_NF_IPTABLES") && legacy.empty();
  const auto value = legacy.empty() ? config.value(option) : legacy;
  if (value == "y" && !is_unsure) return ModuleFact{.state = ModuleState::built_in, .why = {}};
  if (value.empty())
    return missing(
        fmt::format("this kernel was built without it ({}: no {})", config.origin, option));
  return std::nullopt;
}

}  // namespace

ModuleIndex read_module_index(const HostPaths& paths, const std::string& release) {
  ModuleIndex index;
  index.folder = paths.modules / release;
  std::error_code ignored;
  index.visible = std::filesystem::exists(index.folder / "modules.dep", ignored) ||
                  std::filesystem::exists(index.folder / "modules.builtin", ignored);
  read_loaded(paths, index);
  if (const auto text = read_some(index.folder / "modules.builtin"))
    for (const auto line : lines_of(*text))
      index.built_in.insert(name_of_file(netlink::trimmed(line)));
  else if (auto modules = netlink::built_in_by_symbols(paths.proc / "kallsyms"))
    index.built_in = *std::move(modules);
  if (const auto text = read_some(index.folder / "modules.dep")) read_dependencies(*text, index);
  for (const auto& root : {paths.etc, paths.run, paths.usr_lib})
    read_modprobe_folder(root / "modprobe.d", index);
  return index;
}

ModuleFact module_fact(const ModuleQuestion& question, const ModuleIndex& index,
                       const KernelConfig& config, const LoadingRules& rules) {
  const auto name = with_underscores(question.name);
  if (index.loaded.contains(name)) return {.state = ModuleState::loaded, .why = {}};
  if (index.built_in.contains(name)) return {.state = ModuleState::built_in, .why = {}};
  if (auto fact = by_config(name, config)) return *std::move(fact);
  if (!index.visible)
    return {.state = ModuleState::unknown,
            .why = fmt::format("it is not loaded, and {} cannot be seen from here",
                               index.folder.string())};
  const auto files = index.files.find(name);
  if (files == index.files.end())
    return missing(fmt::format("{} has no such module", index.folder.string()));
  if (const auto file = absent_file(files->second, index))
    return missing(fmt::format("its file {} is not there", *file));
  if (auto fact = refusal_of({name, question.asked_for_by_kernel}, files->second, index, rules))
    return *std::move(fact);
  return {.state = ModuleState::loadable, .why = {}};
}

}  // namespace ipvsproxier::check
