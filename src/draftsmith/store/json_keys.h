// Reads a JSON object that someone else wrote, such as a model's config.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace draftsmith {

// An object of a JSON file, read key by key. Errors name file and key; a null counts as absent.
class JsonKeys {
 public:
  // UserError when `text` is not JSON or no object.
  JsonKeys(const std::string& text, const std::string& file);

  bool has(const std::string& key) const;
  // "config.json: 'rope_parameters.factor'", for messages.
  std::string name(const std::string& key) const;

  // UserError when the key is missing (unless there is a fallback) or of another type.
  std::int64_t integer(const std::string& key) const;
  std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  double number(const std::string& key) const;  // finite
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<std::int64_t> integers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  // The object under `key`; an empty one when absent.
  JsonKeys object(const std::string& key) const;

 private:
  struct Value;  // what a key holds
  JsonKeys(std::shared_ptr<const Value> object, std::string where, std::string file);
  Value get(const std::string& key) const;
  std::int64_t to_integer(const Value& value, const std::string& key) const;

  std::shared_ptr<const Value> object_;
  std::string where_, file_;
};

}  // namespace draftsmith
