// SPDX-License-Identifier: Apache-2.0
// Options: the strings a user sets, and what a spec declares of them.
#pragma once
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kdagen/axis.h"
#include "kdagen/constant.h"
#include "kdagen/text.h"

namespace kdagen {

/// One option as a spec declared it; only the members of its kind count.
struct OptionInfo {
  enum class Kind { number, integer, choice } kind;
  std::string name;
  double number_default = 0, number_value = 0, number_min = 0, number_max = 0;  // an infinite end is no bound
  std::int64_t integer_default = 0, integer_value = 0, integer_min = 0, integer_max = 0;
  std::string choice_default{}, choice_value{};
  std::vector<std::string> choices{};

  bool same_declaration(const OptionInfo& o) const {
    return kind == o.kind && number_default == o.number_default && number_min == o.number_min &&
           number_max == o.number_max && integer_default == o.integer_default && integer_min == o.integer_min &&
           integer_max == o.integer_max && choice_default == o.choice_default && choices == o.choices;
  }
};

/// The common options with a value of their own; `dtype`, `out` and `upstream` also take a tensor's name as
/// `dtype.NAME=`. Of these chunk, dim, dtype and out are the DSL's, the rest is left to the compiler.
inline const std::vector<std::string>& common_options() {
  static const std::vector<std::string> names = {"chunk",    "dim",      "dtype",           "out",      "grads",
                                                 "layout",   "upstream", "upstream_layout", "operands", "scan",
                                                 "schedule", "save",     "arithmetic"};
  return names;
}
inline const std::vector<std::string>& prefix_options() {
  static const std::vector<std::string> names = {"dtype.", "out.", "upstream."};
  return names;
}

/// What a spec function receives. Reading an option declares it, so that calling the function with no option set lists
/// what the spec has. Copies share the record. Values that do not pass throw UsageError, as does an option that the
/// finished spec turns out not to have.
class Options {
 public:
  using Values = std::map<std::string, std::string>;
  explicit Options(Values values = {}) : state_(std::make_shared<State>()) {
    state_->values = std::move(values);
    state_->chunk = common_size("chunk", 16, 8, 128, 8);
    dim_ = common_size("dim", 128, 16, 256, 4);
    common_dtype("dtype");
    common_dtype("out");
  }

  /// Rows of a tile: 16 (or the spec's default_chunk) unless set; a multiple of 8 from 8 to 128.
  int chunk() const {
    state_->chunk_read = true;
    return state_->chunk;
  }
  /// The chunk of a spec whose callers agree on another than 16: `o.default_chunk(64);`. First thing in the spec, since
  /// its axes ask for the chunk.
  void default_chunk(int rows, const Location& where = Location::current()) const {
    if (rows < 8 || rows > 128 || rows % 8 != 0)
      spec_error(where, "default_chunk(" + std::to_string(rows) + "): pass a multiple of 8 from 8 to 128");
    if (find("chunk") || state_->chunk == rows) return;
    if (state_->chunk_read)
      spec_error(where, "default_chunk(" + std::to_string(rows) +
                            ") comes after the chunk has been asked for; put it in front of the spec's axes");
    state_->chunk = rows;
  }
  /// Features: 128 unless set; a multiple of 4 from 16 to 256.
  int dim() const { return dim_; }
  /// Storage type of inputs, of outputs: dtype.NAME, then dtype; out.NAME, then out; bf16 unless set.
  DType dtype(const std::string& input) const { return named_dtype("dtype", input); }
  DType out(const std::string& output) const { return named_dtype("out", output); }

  /// A number, kept symbolic: it stays itself through products, and exact.
  Constant number(const std::string& name, double default_value, double min = -unbounded, double max = unbounded,
                  const Location& where = Location::current()) const {
    if (!(min <= max) || !(default_value >= min && default_value <= max))
      spec_error(where, "option " + name + ": the default " + text::number(default_value) + " is not in the range " +
                            range_text(min, max));
    OptionInfo info{OptionInfo::Kind::number, name, default_value, default_value, min, max};
    if (const std::string* given = find(name)) {
      const std::optional<double> parsed = text::parse_number(*given);
      if (!parsed || !(*parsed >= min && *parsed <= max)) refuse(name, *given, "a number " + range_text(min, max));
      info.number_value = *parsed;
    }
    declare(info, where);
    return Constant::symbol(name, info.number_value);
  }

  /// An integer, for choosing structure: `if (o.integer("diag", 0, 0, 1)) ...`.
  long long integer(const std::string& name, long long default_value, long long min, long long max,
                    const Location& where = Location::current()) const {
    if (!(min <= default_value && default_value <= max))
      spec_error(where, "option " + name + ": the default " + std::to_string(default_value) + " is not in " +
                            std::to_string(min) + " to " + std::to_string(max));
    OptionInfo info{OptionInfo::Kind::integer, name};
    info.integer_min = min, info.integer_max = max;
    info.integer_default = info.integer_value = default_value;
    if (const std::string* given = find(name)) {
      const std::optional<long long> parsed = text::parse_integer(*given);
      if (!parsed || *parsed < min || *parsed > max)
        refuse(name, *given, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
      info.integer_value = *parsed;
    }
    declare(info, where);
    return info.integer_value;
  }

  /// One of a list of words.
  std::string choice(const std::string& name, const std::string& default_value, const std::vector<std::string>& choices,
                     const Location& where = Location::current()) const {
    if (std::find(choices.begin(), choices.end(), default_value) == choices.end())
      spec_error(where,
                 "option " + name + ": the default " + default_value + " is none of " + text::join(choices, ", "));
    OptionInfo info{OptionInfo::Kind::choice, name};
    info.choice_default = info.choice_value = default_value;
    info.choices = choices;
    if (const std::string* given = find(name)) {
      if (std::find(choices.begin(), choices.end(), *given) == choices.end())
        refuse(name, *given, "one of " + text::join(choices, ", ") + text::did_you_mean(*given, choices));
      info.choice_value = *given;
    }
    declare(info, where);
    return info.choice_value;
  }

  const Values& values() const { return state_->values; }
  const std::vector<OptionInfo>& declared() const { return state_->declared; }
  bool is_set(const std::string& name) const { return find(name) != nullptr; }

  /// Throws UsageError for options that are neither common nor declared, and for dtype.NAME and out.NAME of tensors
  /// that are not in the lists or whose type the spec fixes.
  void check_all_known(const std::string& spec, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) const {
    std::vector<std::string> known = common_options();
    for (const OptionInfo& info : state_->declared) known.push_back(info.name);
    for (const auto& [name, value] : state_->values) {
      if (name.starts_with("dtype."))
        require_tensor(spec, name, 6, "an input", inputs);
      else if (name.starts_with("out."))
        require_tensor(spec, name, 4, "an output", outputs);
      else if (!name.starts_with("upstream.") && std::find(known.begin(), known.end(), name) == known.end())
        throw UsageError("option " + name + "=" + value + ": " + spec + " has no option " + name +
                         text::did_you_mean(name, known) + "; its options are " + text::join(known, ", "));
    }
  }

  static constexpr double unbounded = std::numeric_limits<double>::infinity();

 private:
  struct State {
    Values values;
    std::vector<OptionInfo> declared;
    int chunk = 16;
    bool chunk_read = false;
  };

  [[noreturn]] static void refuse(const std::string& name, const std::string& value, const std::string& passes) {
    throw UsageError("option " + name + "=" + value + ": pass " + passes);
  }

  static std::string range_text(double min, double max) {
    if (min == -unbounded && max == unbounded) return "(any finite number)";
    if (max == unbounded) return "of at least " + text::number(min);
    if (min == -unbounded) return "of at most " + text::number(max);
    return "from " + text::number(min) + " to " + text::number(max);
  }

  const std::string* find(const std::string& name) const {
    const auto found = state_->values.find(name);
    return found == state_->values.end() ? nullptr : &found->second;
  }

  void declare(const OptionInfo& info, const Location& where) const {
    require_identifier("the option name", info.name, where);
    const auto& common = common_options();
    if (info.name == "ln2" || info.name == "log2e")
      spec_error(where, "option " + info.name + ": the name is a constant's; choose another");
    if (std::find(common.begin(), common.end(), info.name) != common.end())
      spec_error(where, "option " + info.name + " is common to all specs; give the spec's own another name");
    for (const OptionInfo& other : state_->declared)
      if (other.name == info.name) {
        if (other.same_declaration(info)) return;
        spec_error(where, "option " + info.name + " is declared twice, differently; declare it once");
      }
    state_->declared.push_back(info);
  }

  int common_size(const std::string& name, int default_value, int min, int max, int step) const {
    const std::string* given = find(name);
    if (!given) return default_value;
    const std::optional<long long> parsed = text::parse_integer(*given);
    if (!parsed || *parsed < min || *parsed > max || *parsed % step != 0)
      refuse(name, *given,
             "a multiple of " + std::to_string(step) + " from " + std::to_string(min) + " to " + std::to_string(max));
    return static_cast<int>(*parsed);
  }

  DType common_dtype(const std::string& name) const {
    const std::string* given = find(name);
    if (!given || *given == "bf16") return bf16;
    if (*given == "fp16") return fp16;
    if (*given != "f32") refuse(name, *given, "bf16, fp16 or f32");
    return f32;
  }

  DType named_dtype(const std::string& option, const std::string& tensor) const {
    const std::string name = option + "." + tensor;
    return common_dtype(find(name) ? name : option);
  }

  static void require_tensor(const std::string& spec, const std::string& option, std::size_t prefix,
                             const std::string& what, const std::vector<std::string>& names) {
    const std::string tensor = option.substr(prefix);
    if (std::find(names.begin(), names.end(), tensor) == names.end())
      throw UsageError("option " + option + ": " + tensor + " is not " + what + " of " + spec + " with a free type" +
                       text::did_you_mean(tensor, names) +
                       (names.empty() ? "; it has none" : "; these are " + text::join(names, ", ")));
  }

  std::shared_ptr<State> state_;
  int dim_ = 128;
};

}  // namespace kdagen
