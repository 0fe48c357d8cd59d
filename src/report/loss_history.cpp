#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trainctl/report/curve.h"

namespace trainctl {

LossHistory read_loss_history(const fs::path& metrics) {
  std::ifstream in(metrics, std::ios::binary);
  if (!in) {
    throw data_error(metrics.string() + ": cannot open the file: " + std::strerror(errno));
  }
  LossHistory history;
  const auto take = [](const nlohmann::json& object, const char* key,
                       std::vector<CurvePoint>& points) {
    const auto value = object.find(key);
    if (value != object.end() && value->is_number()) {
      points.push_back({object["step"].get<int64_t>(), value->get<double>()});
    }
  };
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object() && object.contains("step") && object["step"].is_number_integer()) {
      take(object, "loss", history.training);
      take(object, "validation_loss", history.validation);
    }
  }
  return history;
}

}  // namespace trainctl
