package workload

import (
	"fmt"
	"strings"
	"testing"
)

// An error about clusters without a value lists twenty of them, in their order, and counts all.
func TestClustersWithoutAValueAreListed(t *testing.T) {
	for clusters, more := range map[int]string{1: "", 20: "", 25: "and 5 more"} {
		var without []string
		for i := range clusters {
			without = append(without, fmt.Sprintf("  c%02d: no label region", clusters-1-i))
		}
		got := withoutText("set \"web\"", without, 40)
		begin := fmt.Sprintf("Set \"web\" could not give %d of 40 selected clusters", clusters)
		if !strings.HasPrefix(got, begin) {
			t.Errorf("%d: got %s", clusters, got)
		}
		if n := strings.Count(got, "no label region"); n != min(clusters, 20) {
			t.Errorf("%d: it lists %d clusters:\n%s", clusters, n, got)
		}
		if !strings.Contains(got, more) || strings.Contains(got, " more") != (more != "") ||
			strings.Index(got, "c00") > strings.Index(got+"c19", "c19") {
			t.Errorf("%d: got %s", clusters, got)
		}
	}
}
