// Dropout off for the life of the object.
#pragma once

#include "trainctl/model/model.h"

namespace trainctl {

class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(true); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
};

}  // namespace trainctl
