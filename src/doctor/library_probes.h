// The evidence about shared libraries, and the probes over it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/group.h"

namespace trainctl::doctor {

struct LibraryObject {
  std::string path;  // empty: not found
  std::string version, rule, needed_by;
  std::string brought_by;                     // of one that was not found
  std::string problem;                        // why it cannot be loaded
  std::string instead_of, instead_version;    // what LD_LIBRARY_PATH keeps from being taken
  std::vector<std::string> missing_versions;  // "libstdc++.so.6: GLIBCXX_3.4.30"
  bool for_engine = false;                    // else only for the CUDA unit
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LibraryObject, path, version, rule, needed_by,
                                                brought_by, problem, instead_of, instead_version,
                                                missing_versions, for_engine)

struct LibraryEvidence {
  std::string engine, engine_tried, cuda_unit;  // paths
  std::string library_path;                     // LD_LIBRARY_PATH
  std::string libtorch;                         // "2.11.0+cu130"
  int runtime_cuda = 0;                         // 13000: LibTorch is built for CUDA 13.0
  std::string glibc, glibcxx;                   // newest symbol versions: "2.36", "3.4.30"
  std::string nvcc, compiler;                   // paths
  std::map<std::string, LibraryObject> objects;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LibraryEvidence, engine, engine_tried, cuda_unit,
                                                library_path, libtorch, runtime_cuda, glibc,
                                                glibcxx, nvcc, compiler, objects)

std::span<const Probe> library_probes();

}  // namespace trainctl::doctor
