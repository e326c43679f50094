// SPDX-License-Identifier: Apache-2.0
// Lines with indentation, spec tags in the right margin.
#pragma once
#include <string>

namespace kdagen::emit {

class Writer {
 public:
  static constexpr int kWidth = 118;
  /// One line; `tag` ("[rmsnorm.cpp:14]") goes to the right margin as a comment.
  void line(const std::string& text = "", const std::string& tag = "") {
    if (text.empty() && tag.empty()) {
      text_ += "\n";
      return;
    }
    std::string all(2 * size_t(depth_), ' ');
    all += text;
    if (!tag.empty()) {
      size_t column = all.size() + 2;
      for (size_t stop : {72, 88, 100})
        if (column <= stop) {
          column = stop;
          break;
        }
      all += std::string(column - all.size(), ' ') + "// " + tag;
    }
    text_ += all + "\n";
  }
  /// A line that opens a block; close() ends it.
  /// `text {`, or a block of its own.
  void open(const std::string& text = "") {
    line(text.empty() ? "{" : text + " {");
    ++depth_;
  }
  void close(const std::string& after = "") {
    --depth_;
    line("}" + after);
  }
  void indent() { ++depth_; }
  void outdent() { --depth_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace kdagen::emit
