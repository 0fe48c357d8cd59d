// The data formats: one row each.
#include <stdexcept>

#include "data/synthetic_dataset.h"
#include "data/text_dataset.h"

namespace trainctl {

DatasetPair open_datasets(const Config& config) {
  switch (config.data.format) {
    case DataFormat::kText:
      return open_text_datasets(config);
    case DataFormat::kSynthetic:
      return open_synthetic_datasets(config);
  }
  throw std::logic_error("unknown data format");
}

}  // namespace trainctl
