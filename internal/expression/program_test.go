package expression_test

import (
	"context"
	"errors"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/expression"
)

func TestProgram(t *testing.T) {
	env, err := expression.NewEnv(expression.CallLimit, []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		holds bool
		err   string
	}{
		"x == 1":     {true, ""},
		"x == 2":     {false, ""},
		"x":          {false, "expected bool result, got int64"},
		"1 / 0 == x": {false, "division by zero"},
	} {
		p, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := p.True(context.Background(), map[string]any{"x": int64(1)}, expression.NewBudget())
		if holds != want.holds || (err == nil) != (want.err == "") || err != nil && err.Error() != want.err {
			t.Errorf("%s: %v, %v, want %v, %q", text, holds, err, want.holds, want.err)
		}
	}
}

func TestCompileSaysWhatIsWrong(t *testing.T) {
	env, err := expression.NewEnv(expression.CallLimit, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := env.Compile("1 +"); p != nil || !errors.Is(err, expression.ErrCompile) {
		t.Errorf("got %v, %v", p, err)
	}
}
