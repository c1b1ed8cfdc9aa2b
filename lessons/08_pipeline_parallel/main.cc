#include "common/train/run/run.h"
#include "lessons/08_pipeline_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::PipelineTrainer>(argc, argv); }
