#include "common/train/run/run.h"
#include "lessons/16_pipeline_schedules/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::ScheduleTrainer>(argc, argv); }
