package budget

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestRecentRemembersWhatWasAdmitted(t *testing.T) {
	r := Recent[string]{Within: 10 * time.Second}
	at := time.Unix(1000, 0)
	full := errors.New("full")
	for i, x := range []struct {
		after  time.Duration
		item   string
		dryRun bool
		refuse error
		before []string
	}{
		{0, "a", false, nil, nil},
		{4 * time.Second, "b", true, nil, []string{"a"}},
		{0, "c", false, full, []string{"a"}},
		{0, "d", false, nil, []string{"a"}},
		{5 * time.Second, "e", false, nil, []string{"a", "d"}},
		{time.Second, "f", false, nil, []string{"d", "e"}}, // ten seconds after a
		{time.Minute, "g", false, nil, nil},
	} {
		at = at.Add(x.after)
		var before []string
		err := r.Admit(at, x.item, x.dryRun, func(b []string) error { before = slices.Clone(b); return x.refuse })
		if !errors.Is(err, x.refuse) || !slices.Equal(before, x.before) {
			t.Errorf("%d, %s: %v, decided by %v, want %v and %v", i, x.item, err, before, x.refuse, x.before)
		}
	}
}
