package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// threshold is a number of clusters, or a share of them.
type threshold struct {
	number  int
	percent float64
	share   bool
}

// readThreshold reads a number or a percentage, which may have a fraction. A
// number that is written as text is none, as upstream.
func readThreshold(field string, v intstr.IntOrString) (threshold, error) {
	if v.Type == intstr.Int {
		return threshold{number: v.IntValue()}, nil
	}
	text, isShare := strings.CutSuffix(v.StrVal, "%")
	percent, err := strconv.ParseFloat(text, 64)
	if !isShare || err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return threshold{}, fmt.Errorf("reading %s %q of the rollout strategy: it is neither a number nor a percentage; write 3 or 25%%", field, v.StrVal)
	}
	return threshold{percent: percent, share: true}, nil
}

// of is the threshold for a number of clusters. Shares are rounded up, and
// calculated as upstream does: 28% of 25 are a little more than 7 then, and make
// 8. What is not within 1 and total, a maxFailures of 0 as much as one of 10 for 5
// clusters, means otherwise.
func (t threshold) of(total, otherwise int) int {
	n := t.number
	if t.share {
		n = int(math.Ceil(t.percent / 100 * float64(total)))
	}
	if n <= 0 || n > total {
		return otherwise
	}
	return n
}
