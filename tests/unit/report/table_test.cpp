#include "trainctl/report/table.h"

#include <gtest/gtest.h>

namespace trainctl {
namespace {

using Align = TextTable::Align;

TEST(TextTable, AlignsColumnsByWhatAPersonSees) {
  TextTable table({{"name"}, {"bytes", Align::kRight}, {"note"}});
  table.add_row({"слой", "7", ""});
  table.add_row({"b", "12345678", "x"});
  EXPECT_EQ(table.text(),
            "  name     bytes  note\n"
            "  слой         7\n"
            "  b     12345678  x\n");
}

TEST(TextTable, WithoutRowsIsItsTitles) {
  const TextTable table({{"a"}, {"b"}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text(), "  a  b\n");
}

TEST(TextTable, RefusesRowsOfAnotherLength) {
  TextTable table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
}

}  // namespace
}  // namespace trainctl
