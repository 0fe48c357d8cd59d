// Rows of text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace trainctl {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit TextTable(std::vector<Column> columns);
  void add_row(std::vector<std::string> cells);  // as many as there are columns
  bool empty() const { return rows_.empty(); }
  // Titles and rows, each line indented by two spaces and without spaces at its end.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace trainctl
