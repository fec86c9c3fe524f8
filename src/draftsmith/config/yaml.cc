// Reads YAML into a RunConfig and prints it again. Types are strict: a value must have the type of its field, and
// yaml-cpp's own lenient conversions (1e6 or 0x10 as integers, "yes" as text) are not used.
#include "draftsmith/config/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>

#include "draftsmith/base/check.h"
#include "draftsmith/base/strings.h"
#include "draftsmith/config/nearest_name.h"
#include "draftsmith/config/run_config_check.h"

namespace draftsmith {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;

std::string full_name(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : text_of(section, ".", key);
}

struct KnownNames {
  std::vector<std::string> keys;      // "train.learning_rate", "output" ...
  std::vector<std::string> sections;  // "train" ...
};

const KnownNames& known_names() {
  static const KnownNames names = [] {
    KnownNames out;
    const RunConfig config;
    visit_fields(config, [&](const char* section, const char* key, const auto&, const char*) {
      out.keys.push_back(full_name(section, key));
      if (*section != '\0' && (out.sections.empty() || out.sections.back() != section)) out.sections.push_back(section);
    });
    return out;
  }();
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// ---- one value ------------------------------------------------------------------------------------------------------

bool is_plain(const YAML::Node& node) { return node.IsScalar() && node.Tag() == "?"; }  // a scalar without quotes

template <class Number>
bool parse_number(const YAML::Node& node, Number& out) {
  if (!is_plain(node)) return false;
  const std::string& text = node.Scalar();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<Number>) return std::isfinite(out);
  return true;
}

bool parse(const YAML::Node& node, std::int64_t& out) { return parse_number(node, out); }
bool parse(const YAML::Node& node, std::uint64_t& out) { return parse_number(node, out); }
bool parse(const YAML::Node& node, double& out) { return parse_number(node, out); }
bool parse(const YAML::Node& node, bool& out) {
  if (!is_plain(node) || (node.Scalar() != "true" && node.Scalar() != "false")) return false;
  out = node.Scalar() == "true";
  return true;
}
bool parse(const YAML::Node& node, std::string& out) {
  if (!node.IsScalar()) return false;
  out = node.Scalar();
  return true;
}
template <Choice T>
bool parse(const YAML::Node& node, T& out) {
  const std::optional<T> choice = node.IsScalar() ? choice_from_text<T>(node.Scalar()) : std::nullopt;
  if (choice) out = *choice;
  return choice.has_value();
}
bool parse(const YAML::Node& node, DraftInit& out) {
  const std::optional<DraftInit> init = node.IsScalar() ? draft_init_from_text(node.Scalar()) : std::nullopt;
  if (init) out = *init;
  return init.has_value();
}
bool parse(const YAML::Node& node, std::vector<std::int64_t>& out) {
  if (!node.IsSequence()) return false;
  out.clear();
  for (const YAML::Node& element : node) {
    if (!parse_number(element, out.emplace_back())) return false;
  }
  return true;
}

const char* what_it_is(const std::int64_t&) { return "a whole number"; }
const char* what_it_is(const std::uint64_t&) { return "a whole number from 0"; }
const char* what_it_is(const bool&) { return "true or false"; }
const char* what_it_is(const double&) { return "a number"; }
const char* what_it_is(const std::string&) { return "text"; }
const char* what_it_is(const std::vector<std::int64_t>&) { return "a list of whole numbers, as in [1, 2]"; }

template <class Field>
constexpr bool kHasChoices = Choice<Field> || std::is_same_v<Field, DraftInit>;

// Lists the values of a field whose values have names; "" for other fields.
template <class Field>
std::string choices_of(const Field&, Notes notes = Notes::kNone) {
  if constexpr (Choice<Field>) return choices_text<Field>(notes);
  if constexpr (std::is_same_v<Field, DraftInit>) return choices_text<DraftInit::Kind>(notes, kDraftInitFolder);
  return "";
}

std::string found_in(const YAML::Node& node) {
  if (node.IsScalar()) return is_plain(node) ? node.Scalar() : "\"" + node.Scalar() + "\"";
  return node.IsSequence() ? "a list" : node.IsMap() ? "a mapping" : "empty";
}

// ---- one key --------------------------------------------------------------------------------------------------------

// Suggests a name for an unknown one: the same key of another section, or else the name with the fewest edits.
std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string bare = "." + name.substr(name.find('.') + 1);
  for (const std::string& candidate : known) {
    if (("." + candidate).ends_with(bare)) return "; did you mean " + candidate + "?";
  }
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "; `draftsmith train --help` lists the known ones" : "; did you mean " + nearest + "?";
}

// Calls use(field) for the field of this name. Returns false when there is none.
template <class Use>
bool with_field(RunConfig& config, const std::string& name, Use use) {
  bool found = false;
  visit_fields(config, [&](const char* section, const char* key, auto& field, const char*) {
    if (full_name(section, key) != name) return;
    found = true;
    use(field);
  });
  return found;
}

// Keys of earlier versions. Their value is accepted when it asks for what now always happens.
struct RetiredKey {
  const char *name, *still_true, *why;
};
constexpr RetiredKey kRetiredKeys[] = {{"train.attention", "fused", "attention always runs on the fused kernels"}};

void set_field(RunConfig& config, const std::string& name, const YAML::Node& value, const std::string& where) {
  const bool found = with_field(config, name, [&](auto& field) {
    if (parse(value, field)) return;
    using Field = std::decay_t<decltype(field)>;
    if constexpr (kHasChoices<Field>)
      throw UsageError(
          text_of(where, ": ", name, " is ", shown(found_in(value)), ", but it must be ", choices_of(field)));
    else
      throw UsageError(text_of(where, ": ", name, " must be ", what_it_is(field), ", not ", shown(found_in(value))));
  });
  if (found) return;
  for (const RetiredKey& key : kRetiredKeys) {
    if (name != key.name) continue;
    if (value.IsScalar() && value.Scalar() == key.still_true) return;
    throw UsageError(text_of(where, ": ", name, " is gone: ", key.why, "; remove the key"));
  }
  throw UsageError(text_of(where, ": unknown key ", shown(name), suggestion(name, known_names().keys)));
}

// ---- a file ---------------------------------------------------------------------------------------------------------

class FileReader {
 public:
  FileReader(const std::string& name, RunConfig& config) : name_(name), config_(config) {}

  void read(const std::string& text) {
    std::vector<YAML::Node> documents;
    try {
      documents = YAML::LoadAll(text);
    } catch (const YAML::Exception& error) {
      throw UsageError(text_of(at(error.mark), ": not valid YAML: ", error.msg));
    }
    if (documents.size() > 1)
      throw UsageError(text_of(name_, ": it holds ", documents.size(), " YAML documents, not one"));
    if (documents.empty() || documents[0].IsNull()) return;
    if (!documents[0].IsMap())
      throw UsageError(text_of(name_, ": it must hold keys and sections, not ", found_in(documents[0])));
    for (const auto& entry : documents[0]) read_top(name_of_key(entry.first), entry.first, entry.second);
  }

 private:
  std::string at(const YAML::Mark& mark) const { return mark.is_null() ? name_ : text_of(name_, ":", mark.line + 1); }

  std::string name_of_key(const YAML::Node& key) const {
    if (!key.IsScalar()) throw UsageError(text_of(at(key.Mark()), ": a key must be a name, not ", found_in(key)));
    return key.Scalar();
  }

  void read_top(const std::string& name, const YAML::Node& key, const YAML::Node& value) {
    const std::string where = at(key.Mark());
    if (contains(known_names().sections, name)) {
      once(name, where);
      if (value.IsNull()) return;  // a section whose keys are all commented out
      if (!value.IsMap()) throw UsageError(text_of(where, ": ", name, " must hold keys, not ", shown(found_in(value))));
      for (const auto& entry : value) set(full_name(name, name_of_key(entry.first)), entry.first, entry.second);
    } else if (value.IsMap() && !contains(known_names().keys, name)) {
      throw UsageError(text_of(where, ": unknown section ", shown(name), suggestion(name, known_names().sections)));
    } else {
      const std::size_t dot = name.find('.');
      if (dot != std::string::npos && contains(known_names().keys, name)) {
        throw UsageError(
            text_of(where, ": ", name, " must be in the section ", name.substr(0, dot), ", as ", name.substr(dot + 1)));
      }
      set(name, key, value);
    }
  }

  void set(const std::string& name, const YAML::Node& key, const YAML::Node& value) {
    const std::string where = at(key.Mark());
    once(name, where);
    set_field(config_, name, value, where);
  }

  void once(const std::string& name, const std::string& where) {
    if (!seen_.insert(name).second) throw UsageError(text_of(where, ": ", name, " is set twice"));
  }

  const std::string& name_;
  RunConfig& config_;
  std::set<std::string> seen_;
};

void assign(RunConfig& config, const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(text_of(where, ": it must read section.key=value, as in --set train.epochs=3"));
  }
  const std::string name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  // Text is taken as it is unless quoted, because a path may hold anything that YAML would read as syntax.
  const bool quoted = value.starts_with('"') || value.starts_with('\'');
  bool done = false;
  with_field(config, name, [&](auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string> || std::is_same_v<Field, DraftInit>) {
      if (!quoted) done = parse(YAML::Node(value), field);
    }
  });
  if (done) return;
  YAML::Node node;
  try {
    node = YAML::Load(value);
  } catch (const YAML::Exception& error) {
    throw UsageError(text_of(where, ": the value is not valid YAML: ", error.msg));
  }
  set_field(config, name, node, where);
}

// ---- printing -------------------------------------------------------------------------------------------------------

std::string printed(std::int64_t value) { return std::to_string(value); }
std::string printed(bool value) { return value ? "true" : "false"; }
std::string printed(std::uint64_t value) { return std::to_string(value); }
std::string printed(double value) {  // the shortest text that reads back as the same number
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  DRAFTSMITH_ASSERT(error == std::errc());
  return std::string(text, end);
}
std::string printed(const std::vector<std::int64_t>& values) {
  std::string out = "[";
  for (std::int64_t value : values) out += (out.size() > 1 ? ", " : "") + std::to_string(value);
  return out + "]";
}
std::string printed(const std::string& value) {
  const auto harmless = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./+-").find(c) != std::string_view::npos;
  };
  const bool plain = !value.empty() && (std::isalnum(static_cast<unsigned char>(value[0])) || value[0] == '/') &&
                     std::all_of(value.begin(), value.end(), harmless) && !YAML::Load(value).IsNull();
  if (plain) return value;
  YAML::Emitter out;
  out << YAML::DoubleQuoted << value;
  return out.c_str();
}

template <Choice T>
std::string printed(T value) {
  return name_of(value);
}
std::string printed(const DraftInit& init) { return printed(name_of(init)); }

enum class Comments { kNone, kHelp };

std::string print(const RunConfig& config, Comments comments) {
  std::string out, current;
  visit_fields(config, [&](const char* section, const char* key, const auto& field, const char* help) {
    if (current != section) out += text_of("\n", section, ":\n"), current = section;
    const std::string line = text_of(current.empty() ? "" : "  ", key, ": ", printed(field));
    out += line;
    if (comments == Comments::kHelp) {
      const std::string choices = choices_of(field, Notes::kShown);
      out += text_of(std::string(line.size() < 34 ? 34 - line.size() : 1, ' '), "# ", help, choices.empty() ? "" : ": ",
                     choices);
    }
    out += "\n";
  });
  return out;
}

}  // namespace

RunConfig run_config_from_yaml(const std::string& text, const std::string& name,
                               std::span<const std::string> assignments) {
  RunConfig config;
  FileReader(name, config).read(text);
  for (const std::string& assignment : assignments) assign(config, assignment);
  check_run_config(config);
  return config;
}

RunConfig read_run_config(const std::filesystem::path& file, std::span<const std::string> assignments) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto size = static_cast<std::size_t>(in.gcount());
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored) || (!in.eof() && size <= kLargestFile)) {
    throw UsageError(text_of("cannot read the configuration ", file.string(), ": no such file, or not readable"));
  }
  if (size > kLargestFile)
    throw UsageError(text_of(file.string(), " is larger than ", kLargestFile, " bytes; it is not a configuration"));
  text.resize(size);
  return run_config_from_yaml(text, file.string(), assignments);
}

std::string run_config_to_yaml(const RunConfig& config) { return print(config, Comments::kNone); }

std::string run_config_help() { return print(RunConfig(), Comments::kHelp); }

}  // namespace draftsmith
