#include "trainctl/base/shared_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainctl {
namespace {

std::string explained(const std::string& library, const std::string& message) {
  return explain_load_failure(library, message).text();
}

using ::testing::AllOf;
using ::testing::HasSubstr;

const char* const kNotFound = ": cannot open shared object file: No such file or directory";

TEST(ExplainLoadFailure, NamesTheMissingObjectAndWhatBringsIt) {
  EXPECT_THAT(
      explained("/x/libtrainctl_engine.so", std::string("libcudart.so.13") + kNotFound),
      AllOf(HasSubstr("cannot load /x/libtrainctl_engine.so: libcudart.so.13 was not found"),
            HasSubstr("nvidia-cuda-runtime"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_THAT(explained("e", std::string("libcupti.so.13") + kNotFound),
              HasSubstr("nvidia-cuda-cupti"));
  EXPECT_THAT(explained("e", std::string("libtorch_cpu.so") + kNotFound),
              HasSubstr("torch==2.11.0"));
  EXPECT_THAT(explained("e", std::string("libc10.so") + kNotFound), HasSubstr("torch==2.11.0"));
  EXPECT_THAT(explained("e", std::string("libsomething.so.1") + kNotFound),
              HasSubstr("libsomething.so.1 was not found"));
}

TEST(ExplainLoadFailure, TellsCauseFromCure) {
  const Explanation cudart = explain_load_failure(
      "libtrainctl_cuda.so", std::string("/a/b/libcusparseLt.so.0") + kNotFound);
  EXPECT_THAT(cudart.cause, HasSubstr("libcusparseLt.so.0 was not found"));
  EXPECT_THAT(cudart.cure,
              AllOf(HasSubstr("it comes with cuSPARSELt"), HasSubstr("LD_LIBRARY_PATH")));
}

TEST(ExplainLoadFailure, SuspectsForeignVersions) {
  EXPECT_THAT(
      explain_load_failure("x.so", "/a/libtorch_cuda.so: undefined symbol: ncclCommWindow").cure,
      HasSubstr("LD_LIBRARY_PATH"));
  EXPECT_THAT(
      explain_load_failure("x.so", "/a/libstdc++.so.6: version `GLIBCXX_3.4.30' not found").cure,
      HasSubstr("older ones out of LD_LIBRARY_PATH"));
}

TEST(ExplainLoadFailure, TellsPermissionsFromAbsence) {
  EXPECT_THAT(explained("e", "/x/libc10.so: cannot open shared object file: Permission denied"),
              HasSubstr("cannot be opened: Permission denied"));
}

TEST(ExplainLoadFailure, NamesWhatIsTooOld) {
  EXPECT_THAT(explained("e", "/lib/libc.so.6: version `GLIBC_2.38' not found (required by e)"),
              AllOf(HasSubstr("the C library of this system is too old"), HasSubstr("GLIBC_2.38")));
  EXPECT_THAT(
      explained("e", "/lib/libstdc++.so.6: version `GLIBCXX_3.4.31' not found (required by e)"),
      AllOf(HasSubstr("libstdc++ (/lib/libstdc++.so.6) is too old"), HasSubstr("GLIBCXX_3.4.31")));
}

TEST(ExplainLoadFailure, ForeignLibTorchAndDamagedFiles) {
  EXPECT_THAT(explained("e", "e: undefined symbol: _ZN2at4_ops3add4callE"),
              AllOf(HasSubstr("2.11.0 is needed"), HasSubstr("_ZN2at4_ops3add4callE")));
  EXPECT_THAT(explained("e", "e: file too short"), HasSubstr("damaged"));
  EXPECT_THAT(explained("e", "e: cannot allocate memory in static TLS block"),
              HasSubstr("GLIBC_TUNABLES"));
}

TEST(ExplainLoadFailure, TooLittleAddressSpaceNamesTheLimit) {
  EXPECT_THAT(explained("e", "libtorch_cpu.so: failed to map segment from shared object"),
              HasSubstr("ulimit -v"));
}

}  // namespace
}  // namespace trainctl
