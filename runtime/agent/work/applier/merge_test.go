package applier

import (
	"maps"
	"testing"
)

func TestMergedMapRemovesByATrailingDash(t *testing.T) {
	got := mergedMap(map[string]string{"keep": "1", "drop": "1", "change": "1"}, map[string]string{"drop-": "", "change": "2", "add": "1"})
	if want := map[string]string{"keep": "1", "change": "2", "add": "1"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
