// 01.2 A mean that begins with nothing
//
// AdamW keeps a running mean of gradients in one number, `moment`. It is 0 before the first step,
// and in each step it becomes 0.9 times itself plus 0.1 times the gradient. So it starts too small:
// the gradient 5 in step 1 makes it 0.5.
//
// Updates `moment` by this rule, and returns a mean without that fault: it weighs the gradients in
// the same proportions, newer ones more, but if all of them are 5, it is 5 in every step. `step`
// counts from 1.
// Example: gradient 5 in step 1: `moment` becomes 0.5, and 5 is returned.
#include <cmath>

double mean(double& moment, double gradient, int step) {
  throw "not written yet";  // yours
}
