package recovery_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
)

func TestPanicIsTheErrorOfTheCall(t *testing.T) {
	plain := errors.New("plain")
	var nothing map[string]int
	tests := map[string]struct {
		f    func() error
		want string
	}{
		"no error":         {func() error { return nil }, ""},
		"an error":         {func() error { return plain }, "plain"},
		"a panic":          {func() error { panic("odd object") }, "panic: odd object"},
		"a runtime error":  {func() error { nothing["x"] = 1; return nil }, "assignment to entry in nil map"},
		"a panic of error": {func() error { panic(plain) }, "panic: plain"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := recovery.Call(tt.f)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
