// Libraries found as the loader would, whole or damaged.
#include "doctor/library_search.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <random>

#include "doctor/library_versions.h"
#include "support/testing.h"

namespace trainctl::doctor {
namespace {

const fs::path kLibraries = TRAINCTL_FAKE_LIBRARIES;

const FoundObject& found(const LibrarySearch& search, const std::string& name) {
  const FoundObject* object = search.find(name);
  EXPECT_NE(object, nullptr) << name;
  static const FoundObject kNone;
  return object == nullptr ? kNone : *object;
}

std::string contents(const fs::path& path) { return read_file(path, ExitCode::kData); }

TEST(LibrarySearch, LibraryPathComesBeforeRunpathAndAfterRpath) {
  const TemporaryFolder folder;
  fs::copy(kLibraries / "inner/libinner.so.1", folder.path() / "libinner.so.1");
  LibrarySearch by_runpath(folder.path().string());
  by_runpath.open(kLibraries / "libby_runpath.so", -1);
  const FoundObject& first = found(by_runpath, "libinner.so.1");
  EXPECT_EQ(first.path, (folder.path() / "libinner.so.1").string());
  EXPECT_EQ(first.rule, "LD_LIBRARY_PATH");
  EXPECT_TRUE(fs::equivalent(first.instead_of, kLibraries / "inner/libinner.so.1"));

  LibrarySearch by_rpath(folder.path().string());
  by_rpath.open(kLibraries / "libby_rpath.so", -1);
  const FoundObject& second = found(by_rpath, "libinner.so.1");
  EXPECT_EQ(second.rule, "RPATH of libby_rpath.so");
  EXPECT_EQ(second.instead_of, "");
}

TEST(LibrarySearch, RunpathCountsWhereNoLibraryPathIsSet) {
  LibrarySearch search("");
  search.open(kLibraries / "libby_runpath.so", -1);
  EXPECT_EQ(found(search, "libinner.so.1").rule, "RUNPATH of libby_runpath.so");
  EXPECT_EQ(found(search, "libinner.so.1").needed_by, "libby_runpath.so");
  search.open("/proc/self/exe", -1);
  EXPECT_FALSE(found(search, "libc.so.6").path.empty());
}

TEST(LibrarySearch, NamesAllThatIsMissingAndNotOnlyTheFirst) {
  const FakeRoot root;
  LibrarySearch search("", root.path());
  search.open("/proc/self/exe", -1);
  int missing = 0;
  for (const FoundObject& object : search.objects()) missing += object.path.empty() ? 1 : 0;
  EXPECT_GE(missing, 3);
  EXPECT_EQ(found(search, "libstdc++.so.6").path, "");
  EXPECT_EQ(found(search, "libc.so.6").path, "");
}

TEST(LibrarySearch, OneForAnotherMachineIsPassedOverADamagedOneIsTaken) {
  const TemporaryFolder folder;
  std::string foreign = contents(kLibraries / "inner/libinner.so.1");
  foreign[18] = 0x14;  // e_machine: PowerPC
  folder.write("foreign/libinner.so.1", foreign);
  folder.write("damaged/libinner.so.1", "version https://git-lfs.github.com/spec/v1\n");
  LibrarySearch passed((folder.path() / "foreign").string());
  passed.open(kLibraries / "libby_runpath.so", -1);
  EXPECT_EQ(found(passed, "libinner.so.1").rule, "RUNPATH of libby_runpath.so");
  LibrarySearch taken((folder.path() / "damaged").string());
  taken.open(kLibraries / "libby_runpath.so", -1);
  EXPECT_EQ(found(taken, "libinner.so.1").elf.problem, "is no library (no ELF header)");
}

TEST(LibrarySearch, TellsSymbolVersionsThatAreMissing) {
  LibrarySearch search("");
  search.open("/proc/self/exe", -1);
  for (const FoundObject& object : search.objects()) {
    EXPECT_TRUE(object.missing_versions.empty()) << object.name;
  }
  // An older libstdc++: one of its version names is another.
  const TemporaryFolder folder;
  std::string older = contents(found(search, "libstdc++.so.6").path);
  const std::string version("\0GLIBCXX_3.4.11\0", 16);
  const size_t at = older.find(version);
  ASSERT_NE(at, std::string::npos);
  older[at + 9] = 'x';
  folder.write("libstdc++.so.6", older);
  LibrarySearch again(folder.path().string());
  again.open("/proc/self/exe", -1);
  std::string told;
  for (const FoundObject& object : again.objects()) {
    for (const NeededVersion& needed : object.missing_versions) told += needed.version + " ";
  }
  EXPECT_THAT(told, ::testing::HasSubstr("GLIBCXX_3.4.11"));
}

TEST(ReadElf, SaysOfAnyTruncationThatItIsOne) {
  const TemporaryFolder folder;
  const std::string whole = contents(kLibraries / "libby_runpath.so");
  for (size_t size = 0; size < whole.size(); size += 97) {
    folder.write("cut.so", whole.substr(0, size));
    const ElfFile elf = read_elf(folder.path() / "cut.so");
    if (elf.problem.empty()) {  // only section headers, which no loader reads, may be gone
      EXPECT_THAT(elf.needed, ::testing::Contains("libinner.so.1")) << size;
      EXPECT_GT(size, whole.size() / 2);
    }
  }
}

TEST(ReadElf, SurvivesAnyDamage) {
  const TemporaryFolder folder;
  const std::string whole = contents(kLibraries / "libby_runpath.so");
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 8; ++i) {
      // Most of it where the tables are.
      const size_t span = i < 6 ? std::min<size_t>(1024, whole.size()) : whole.size();
      damaged[random() % span] = static_cast<char>(random());
    }
    folder.write("damaged.so", damaged);
    read_elf(folder.path() / "damaged.so");
  }
}

TEST(ReadElf, DoesNotWaitForWhatIsNoFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_elf(folder.path() / "pipe").problem, "is no regular file");
  EXPECT_EQ(read_elf(folder.path() / "none").problem, "No such file or directory");
}

TEST(LibraryVersions, ComeFromNamesHeadersAndWheels) {
  const TemporaryFolder folder;
  folder.write("lib/libcudart.so.13.0.96", "");
  fs::create_symlink("libcudart.so.13.0.96", folder.path() / "lib/libcudart.so.13");
  EXPECT_EQ(version_of_library(folder.path() / "lib/libcudart.so.13"), "13.0.96");
  folder.write("cudnn/lib/libcudnn_ops.so.9", "");
  EXPECT_EQ(version_of_library(folder.path() / "cudnn/lib/libcudnn_ops.so.9"), "");
  folder.write("cudnn/include/cudnn_version.h",
               "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n");
  EXPECT_EQ(version_of_library(folder.path() / "cudnn/lib/libcudnn_ops.so.9"), "9.10.2");
  folder.write("site-packages/nvidia/cublas/lib/libcublas.so.12", "");
  folder.write("site-packages/nvidia_cublas_cu12-12.8.4.1.dist-info/METADATA", "");
  EXPECT_EQ(version_of_library(folder.path() / "site-packages/nvidia/cublas/lib/libcublas.so.12"),
            "12.8.4.1");
}

TEST(LibraryVersions, LibTorchSaysItsOwnAndItsCuda) {
  const TemporaryFolder folder;
  folder.write("torch/lib/libtorch_cpu.so", "");
  folder.write("torch/version.py",
               "from typing import Optional\n__version__ = '2.11.0+cu128'\n"
               "cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n");
  const auto wheel = version_of_libtorch(folder.path() / "torch/lib/libtorch_cpu.so");
  EXPECT_EQ(wheel.version + " " + wheel.cuda, "2.11.0+cu128 12.8");
  folder.write("libtorch/lib/libtorch_cpu.so", "");
  folder.write("libtorch/build-version", "2.11.0+cu130\n");
  const auto archive = version_of_libtorch(folder.path() / "libtorch/lib/libtorch_cpu.so");
  EXPECT_EQ(archive.version + " " + archive.cuda, "2.11.0+cu130 13.0");
}

TEST(CompareVersions, PartsAreNumbers) {
  EXPECT_LT(compare_versions("9.9.0", "9.10.2"), 0);
  EXPECT_GT(compare_versions("2.28.9", "2.18"), 0);
  EXPECT_EQ(compare_versions("13.0", "13.0.0"), 0);
}

}  // namespace
}  // namespace trainctl::doctor
