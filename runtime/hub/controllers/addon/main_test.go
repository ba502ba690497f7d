package addon_test

import (
	"context"
	"errors"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

var env testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.With(func(ctx context.Context) (stop func(), err error) {
		for _, o := range install.AddOnRoles() {
			err = errors.Join(err, env.Client().Create(ctx, o))
		}
		return func() {}, err
	}))
}
