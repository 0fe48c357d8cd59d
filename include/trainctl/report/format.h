// Records as text. Pure functions; none of the results but format_sample and format_summary ends
// with a newline.
#pragma once

#include <string>

#include "trainctl/report/records.h"

namespace trainctl {

// Whether the environment (LC_ALL, LC_CTYPE, LANG) promises UTF-8.
bool locale_is_utf8();

// "step  90/200 | loss 2.3456 | lr 3.00e-04 | grad norm 1.23 | 12.3k tok/s | 1.2 GiB | ETA 1m 02s"
std::string format_step_line(const StepRecord& record);

// At most `width` columns: as many of the values as fit, and a bar in what is left.
std::string format_progress_bar(const StepRecord& record, int width, bool unicode);

std::string format_validation_line(const ValidationRecord& record);

// The text as lines of its own, without anything that a terminal would obey.
std::string format_sample(const SampleRecord& record);

std::string format_summary(const SummaryRecord& record);

// One line of metrics.jsonl, without the line end.
std::string step_to_json(const StepRecord& record);
std::string validation_to_json(const ValidationRecord& record);
std::string sample_to_json(const SampleRecord& record);
std::string checkpoint_to_json(const CheckpointRecord& record);

}  // namespace trainctl
