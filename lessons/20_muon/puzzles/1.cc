// 20.1 Two rows
//
// A matrix X has two rows, a and b. aa is the sum of a[i] a[i] over all i, ab that of a[i] b[i],
// and bb that of b[i] b[i]. The rows of X' are aa a + ab b and ab a + bb b. X'' is made of X' as X'
// is made of X, with the same aa, ab and bb. In an iteration X becomes
// 3.4445 X - 4.7750 X' + 2.0315 X''.
//
// Changes a and b to what they are after five iterations. Then both are about 1 long, and ab is
// about 0, unless one row was nearly a multiple of the other. All squares add up to 1 at first, so
// there is no norm to divide by.
// Example: a {0.6, 0}, b {0, 0.8}: they are {1.193, 0} and {0, 0.976} after one iteration.
#include <cmath>
#include <vector>

void make_orthogonal(std::vector<double>& a, std::vector<double>& b) {
  throw "not written yet";  // yours
}
