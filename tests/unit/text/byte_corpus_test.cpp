#include "trainctl/text/byte_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/testing.h"
#include "trainctl/base/error.h"
#include "trainctl/text/byte_tokenizer.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Runs in a folder of its own, which is also the working directory.
class ByteCorpusTest : public testing::Test {
 protected:
  ByteCorpusTest() { fs::current_path(folder_); }
  ~ByteCorpusTest() override { fs::current_path(before_); }

  static void write(const fs::path& path, const std::string& text) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::vector<std::string> names(const std::vector<std::string>& patterns) {
    std::vector<std::string> out;
    for (const TextFile& file : resolve_text_files(patterns, "data.train"))
      out.push_back(file.path.string());
    return out;
  }
  static ByteCorpus load(const std::vector<std::string>& patterns) {
    return ByteCorpus::load(resolve_text_files(patterns, "data.train"), "data.train");
  }
  static std::string text_of(const ByteCorpus& corpus) {
    std::vector<int64_t> ids(static_cast<size_t>(corpus.size()));
    corpus.read(0, corpus.size(), ids.data());
    return decode_bytes(ids);
  }
  static std::string error_of(const std::vector<std::string>& patterns) {
    return refusal_of(ExitCode::kData, [&] { load(patterns); });
  }

  fs::path before_ = fs::current_path();
  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
};

TEST_F(ByteCorpusTest, ExpandsGlobsInOrderEachFileOnce) {
  for (const char* name : {"b.txt", "a.txt", "sub/c.txt", "sub/deep/d.txt", "z.md"})
    write(name, "x");
  fs::create_symlink("a.txt", "link.txt");
  EXPECT_THAT(names({"z.md", "*.txt"}), ElementsAre("z.md", "a.txt", "b.txt"));
  EXPECT_THAT(names({"**/*.txt", "./a.txt"}),
              ElementsAre("a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"));
}

TEST_F(ByteCorpusTest, TakesAnExistingNameWithBracketsAsItIs) {
  write("part[1].txt", "x");
  EXPECT_THAT(names({"part[1].txt"}), ElementsAre("part[1].txt"));
}

TEST_F(ByteCorpusTest, JoinsFilesWithEndOfText) {
  write("a.txt", "one\n");
  write("b.txt", "two");
  EXPECT_EQ(text_of(load({"a.txt", "b.txt"})), "one\n<|endoftext|>two<|endoftext|>");
}

TEST_F(ByteCorpusTest, ReadsAnySliceWithItsEndsOfText) {
  write("a.txt", "ab");
  write("b.txt", "c");
  const ByteCorpus corpus = load({"*.txt"});
  const std::vector<int64_t> all = {'a', 'b', kEndOfText, 'c', kEndOfText};
  ASSERT_EQ(corpus.size(), 5);
  for (int64_t begin = 0; begin <= 5; ++begin) {
    for (int64_t end = begin; end <= 5; ++end) {
      std::vector<int64_t> out(static_cast<size_t>(end - begin));
      corpus.read(begin, end - begin, out.data());
      EXPECT_EQ(out, std::vector<int64_t>(all.begin() + begin, all.begin() + end));
    }
  }
}

TEST_F(ByteCorpusTest, NulBytesAreNoEndsOfText) {
  write("a.txt", std::string("a\0b", 3));
  const ByteCorpus corpus = load({"a.txt"});
  std::vector<int64_t> ids(4);
  corpus.read(0, 4, ids.data());
  EXPECT_THAT(ids, ElementsAre('a', 0, 'b', kEndOfText));
}

TEST_F(ByteCorpusTest, DropsTheByteOrderMarkAndNormalizesLineEnds) {
  write("a.txt", "\xEF\xBB\xBFone\r\ntwo\rthree\nfour\r\r\n\r");
  const ByteCorpus corpus = load({"a.txt"});
  EXPECT_EQ(text_of(corpus), "one\ntwo\nthree\nfour\n\n\n<|endoftext|>");
  EXPECT_EQ(corpus.counts().byte_order_marks, 1);
  EXPECT_EQ(corpus.counts().crlf, 2);
  EXPECT_EQ(corpus.counts().lone_cr, 3);
}

TEST_F(ByteCorpusTest, LineEndsOfOneFileDoNotMeetThoseOfTheNext) {
  write("a.txt", "a\r");
  write("b.txt", "\nb");
  EXPECT_EQ(text_of(load({"*.txt"})), "a\n<|endoftext|>\nb<|endoftext|>");
}

TEST_F(ByteCorpusTest, NamesFileLineAndOffsetOfInvalidUtf8) {
  write("bad.txt", "one\r\ntwo\rcaf\xE9\n");
  EXPECT_THAT(error_of({"bad.txt"}),
              AllOf(HasSubstr("bad.txt:3: byte offset 12 (0xE9) is not valid UTF-8"),
                    HasSubstr("data.train"), HasSubstr("iconv -f ISO-8859-1 -t UTF-8 'bad.txt'")));
  // The offset is the file's own: the mark and the files before it do not shift it.
  write("a.txt", "fine");
  write("b.txt", "\xEF\xBB\xBFx\xFF");
  EXPECT_THAT(error_of({"a.txt", "b.txt"}), HasSubstr("b.txt:1: byte offset 4 (0xFF)"));
}

TEST_F(ByteCorpusTest, SaysWhatAForeignFileLooksLike) {
  write("wide.txt", std::string("\xFF\xFEh\0i\0", 6));
  EXPECT_THAT(error_of({"wide.txt"}), HasSubstr("iconv -f UTF-16"));
  write("text.gz", std::string("\x1F\x8B\x08\0", 4));
  EXPECT_THAT(error_of({"text.gz"}), HasSubstr("gunzip"));
  write("program", std::string("\x7F"
                               "ELF\0\xFF",
                               6));
  EXPECT_THAT(error_of({"program"}), HasSubstr("binary"));
}

TEST_F(ByteCorpusTest, NamesAMissingFileTheFolderAndTheNearestName) {
  write("shakespeare.txt", "x");
  EXPECT_THAT(
      error_of({"shakspeare.txt"}),
      AllOf(HasSubstr("data.train: file 'shakspeare.txt' does not exist"),
            HasSubstr(fs::current_path().string()), HasSubstr("did you mean 'shakespeare.txt'?")));
  EXPECT_THAT(error_of({"/nowhere/at/all.txt"}),
              AllOf(HasSubstr("'/nowhere/at/all.txt' does not exist"), Not(HasSubstr("working"))));
}

TEST_F(ByteCorpusTest, RefusesEmptyGlobsFoldersAndSpecialFiles) {
  EXPECT_THAT(error_of({"*.txt"}),
              AllOf(HasSubstr("no file matches '*.txt'"), HasSubstr(fs::current_path().string())));
  fs::create_directory("texts");
  EXPECT_THAT(error_of({"texts"}),
              AllOf(HasSubstr("'texts' is a folder"), HasSubstr("texts/**/*.txt")));
  fs::create_directory("x.d");
  EXPECT_THAT(error_of({"x*"}), HasSubstr("no file matches"));
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  EXPECT_THAT(error_of({"pipe"}), HasSubstr("'pipe' is no regular file"));
}

TEST_F(ByteCorpusTest, NamesAnUnreadableFile) {
  write("secret.txt", "x");
  const std::vector<TextFile> files = resolve_text_files({"secret.txt"}, "data.train");
  if (::geteuid() != 0) {
    fs::permissions("secret.txt", fs::perms::none);
    EXPECT_THAT(error_of({"secret.txt"}),
                AllOf(HasSubstr("cannot read 'secret.txt'"), HasSubstr("Permission denied")));
  }
  fs::remove("secret.txt");  // root reads everything; vanishing after the look-up fails for all
  try {
    ByteCorpus::load(files, "data.train");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot read 'secret.txt': No such file"));
  }
}

TEST_F(ByteCorpusTest, PassesOverEmptyFilesOfAGlobButNotNamedOnes) {
  write("a.txt", "");
  write("b.txt", "text");
  write("c.txt", "\xEF\xBB\xBF");  // nothing but a mark
  const ByteCorpus corpus = load({"*.txt"});
  EXPECT_EQ(text_of(corpus), "text<|endoftext|>");
  EXPECT_EQ(corpus.counts().files, 1);
  EXPECT_EQ(corpus.counts().empty_files, 2);
  EXPECT_THAT(error_of({"b.txt", "a.txt"}), HasSubstr("file 'a.txt' is empty"));
  EXPECT_THAT(error_of({"[ac].txt"}), HasSubstr("all 2 matching files are empty"));
}

TEST_F(ByteCorpusTest, ChecksumSeesBytesAndDocumentEnds) {
  write("ab.txt", "ab");
  write("a.txt", "a");
  write("b.txt", "b");
  write("nul.txt", std::string("a\0b", 3));
  const ByteCorpus joined = load({"a.txt", "b.txt"}), nul = load({"nul.txt"});
  ASSERT_EQ(joined.size(), nul.size());
  EXPECT_NE(joined.checksum(0, 4), nul.checksum(0, 4));  // the same bytes but for where texts end
  const ByteCorpus later = load({"ab.txt", "a.txt", "b.txt"});
  EXPECT_EQ(joined.checksum(0, 4), later.checksum(3, 7));  // wherever the slice stands
  EXPECT_NE(joined.checksum(0, 4), joined.checksum(0, 3));
}

}  // namespace
}  // namespace trainctl
